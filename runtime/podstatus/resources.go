// SPDX-License-Identifier: Apache-2.0

package podstatus

import v1 "k8s.io/api/core/v1"

// qosClass returns the first assigned class, since the class never changes, or else the computed
// class.
func (g *generator) qosClass() v1.PodQOSClass {
	for _, class := range []v1.PodQOSClass{g.Pod.Status.QOSClass, g.previous.QOSClass} {
		if class != "" {
			return class
		}
	}
	return QOSClass(g.Pod)
}

// QOSClass computes the quality-of-service class of a pod from cpu and memory. If the pod has
// pod-level cpu or memory, the pod-level resources decide (KEP-2837). Otherwise all regular and
// init containers decide. The class is Guaranteed if each container has limits for both resources
// and equal requests (an unset request equals the limit), BestEffort if no container has a non-zero
// value, and Burstable otherwise.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	if r := pod.Spec.Resources; r != nil && usesAny(r) {
		if isGuaranteed(r) {
			return v1.PodQOSGuaranteed
		}
		return v1.PodQOSBurstable
	}
	best, guaranteed := true, true
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			best = best && !usesAny(r)
			guaranteed = guaranteed && isGuaranteed(r)
		}
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

var computeResources = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}

func usesAny(r *v1.ResourceRequirements) bool {
	for _, name := range computeResources {
		request, limit := r.Requests[name], r.Limits[name]
		if request.Sign() > 0 || limit.Sign() > 0 {
			return true
		}
	}
	return false
}

func isGuaranteed(r *v1.ResourceRequirements) bool {
	for _, name := range computeResources {
		limit := r.Limits[name]
		request, set := r.Requests[name]
		if limit.Sign() <= 0 || set && request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}
