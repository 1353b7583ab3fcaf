// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// qosClass is the class the pod was given first, since it never changes; else it
// is computed.
func (g *generator) qosClass() v1.PodQOSClass {
	for _, class := range []v1.PodQOSClass{g.Pod.Status.QOSClass, g.previous.QOSClass} {
		if class != "" {
			return class
		}
	}
	return QOSClass(g.Pod)
}

// QOSClass computes the quality-of-service class of a pod from its cpu and
// memory. A pod that sets any of them for itself as a whole is judged by that
// (KEP-2837), any other by all its regular and init containers: Guaranteed if
// each has limits for both and requests that equal them (an unset request is the
// limit), BestEffort if none has anything but zeros, Burstable otherwise.
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

// The least cpu that a kernel can be told, in thousandths. A container that is
// given less reads back as this much, which must not look like a resize.
const (
	leastCPULimit   = 10 // of a CFS quota
	leastCPURequest = 2  // two shares
)

// setResources reports what the spec gave the container, overlaid with what the
// runtime says it has if it runs.
func setResources(spec *v1.Container, in *runtime.ContainerStatus, status *v1.ContainerStatus) {
	given := &spec.Resources
	if len(given.Requests) == 0 && len(given.Limits) == 0 {
		return
	}
	status.AllocatedResources = given.Requests.DeepCopy()
	status.Resources = given.DeepCopy()
	if in.State != runtime.StateRunning || in.Resources == nil {
		return
	}
	overlay(status.Resources.Limits, in.Resources.Limits, leastCPULimit)
	overlay(status.Resources.Requests, in.Resources.Requests, leastCPURequest)
}

// overlay replaces the cpu and memory that to has by those of from.
func overlay(to, from v1.ResourceList, leastCPU int64) {
	for _, name := range computeResources {
		_, had := to[name]
		actual, has := from[name]
		if !had || !has || name == v1.ResourceCPU && actual.MilliValue() <= leastCPU {
			continue
		}
		to[name] = actual.DeepCopy()
	}
}
