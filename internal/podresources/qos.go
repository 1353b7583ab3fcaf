// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// QOS returns the class in the pod's status, or else the computed class.
func QOS(pod *v1.Pod) v1.PodQOSClass {
	if class := pod.Status.QOSClass; class != "" {
		return class
	}
	return QOSClass(pod)
}

// QOSClass computes the class of a pod: see podstatus.QOSClass.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	if r := pod.Spec.Resources; r != nil && usesAny(r) {
		if isGuaranteed(r) {
			return v1.PodQOSGuaranteed
		}
		return v1.PodQOSBurstable
	}
	best, guaranteed := true, true
	for c := range podfacts.Containers(&pod.Spec) {
		best = best && !usesAny(&c.Resources)
		guaranteed = guaranteed && isGuaranteed(&c.Resources)
	}
	switch {
	case best:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}

var classResources = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}

func usesAny(r *v1.ResourceRequirements) bool {
	for _, name := range classResources {
		request, limit := r.Requests[name], r.Limits[name]
		if request.Sign() > 0 || limit.Sign() > 0 {
			return true
		}
	}
	return false
}

func isGuaranteed(r *v1.ResourceRequirements) bool {
	for _, name := range classResources {
		limit := r.Limits[name]
		request, set := r.Requests[name]
		if limit.Sign() <= 0 || set && request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}
