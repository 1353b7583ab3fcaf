// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// setResourceDefaults rounds quantities up to thousandths and sets missing requests to the limits.
func setResourceDefaults(r *v1.ResourceRequirements) {
	roundUp(r.Limits)
	roundUp(r.Requests)
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			setResource(&r.Requests, name, limit)
		}
	}
}

func roundUp(list v1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

func setResource(list *v1.ResourceList, name v1.ResourceName, q resource.Quantity) {
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = q.DeepCopy()
}

// setPodResourceDefaults derives pod-level resources (KEP-2837) from the resources of the
// containers, which must be defaulted. A pod without pod-level resources is not changed.
func setPodResourceDefaults(spec *v1.PodSpec) {
	r := spec.Resources
	if r == nil {
		return
	}
	roundUp(r.Limits)
	roundUp(r.Requests)
	limits := totalOf(spec, func(c *v1.Container) v1.ResourceList { return c.Resources.Limits })
	for name, total := range limits {
		if _, ok := r.Limits[name]; !ok && isHugePages(name) {
			setResource(&r.Limits, name, total)
		}
	}
	requests := totalOf(spec, func(c *v1.Container) v1.ResourceList { return c.Resources.Requests })
	for name, total := range requests {
		if _, ok := r.Requests[name]; !ok && (name == v1.ResourceCPU || name == v1.ResourceMemory) {
			setResource(&r.Requests, name, total)
		}
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok && isPodLevel(name) {
			setResource(&r.Requests, name, limit)
		}
	}
}

// totalOf returns the most that a pod's containers need at a time: all containers and sidecars
// together, or an init container together with the sidecars started before it.
func totalOf(spec *v1.PodSpec, of func(*v1.Container) v1.ResourceList) v1.ResourceList {
	sidecars, most := v1.ResourceList{}, v1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if podfacts.IsSidecar(c) {
			addTo(sidecars, of(c))
			raiseTo(most, sidecars)
			continue
		}
		during := sidecars.DeepCopy()
		addTo(during, of(c))
		raiseTo(most, during)
	}
	running := sidecars
	for i := range spec.Containers {
		addTo(running, of(&spec.Containers[i]))
	}
	raiseTo(most, running)
	return most
}

func addTo(sum, list v1.ResourceList) {
	for name, q := range list {
		total := sum[name].DeepCopy()
		total.Add(q)
		sum[name] = total
	}
}

func raiseTo(most, list v1.ResourceList) {
	for name, q := range list {
		if have, ok := most[name]; !ok || have.Cmp(q) < 0 {
			most[name] = q.DeepCopy()
		}
	}
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

func isPodLevel(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || isHugePages(name)
}
