// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podresources"
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
	limits := podresources.Peak(spec, func(c *v1.Container) v1.ResourceList { return c.Resources.Limits })
	for name, total := range limits {
		if _, ok := r.Limits[name]; !ok && podresources.IsHugePages(name) {
			setResource(&r.Limits, name, total)
		}
	}
	requests := podresources.Peak(spec, func(c *v1.Container) v1.ResourceList { return c.Resources.Requests })
	for name, total := range requests {
		if _, ok := r.Requests[name]; !ok && (name == v1.ResourceCPU || name == v1.ResourceMemory) {
			setResource(&r.Requests, name, total)
		}
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok && podresources.IsPodLevel(name) {
			setResource(&r.Requests, name, limit)
		}
	}
}
