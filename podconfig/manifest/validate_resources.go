// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nativeResources are the resource names without a domain allowed in containers.
var nativeResources = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

func validateResources(r *report, res *v1.ResourceRequirements, claims []v1.PodResourceClaim, p *field.Path) {
	for _, name := range sortedKeys(res.Limits) {
		validateQuantity(r, res.Limits, name, p.Child("limits").Key(shorten(string(name))))
	}
	for _, name := range sortedKeys(res.Requests) {
		at := p.Child("requests").Key(shorten(string(name)))
		validateQuantity(r, res.Requests, name, at)
		request, limit := res.Requests[name], res.Limits[name]
		_, limited := res.Limits[name]
		switch {
		case limited && request.Cmp(limit) > 0:
			r.invalid(at, request.String(), "must be less than or equal to "+string(name)+" limit of "+limit.String())
		case !isOvercommittable(name) && (!limited || request.Cmp(limit) != 0):
			r.invalid(at, request.String(), "must be equal to the limit, this resource cannot be overcommitted")
		}
	}
	for i, claim := range res.Claims {
		known := slices.ContainsFunc(claims, func(c v1.PodResourceClaim) bool { return c.Name == claim.Name })
		if !known {
			r.errs = append(r.errs, field.NotFound(p.Child("claims").Index(i).Child("name"), shorten(claim.Name)))
		}
	}
}

func validateQuantity(r *report, list v1.ResourceList, name v1.ResourceName, p *field.Path) {
	q := list[name]
	r.faults(p, string(name), validation.IsQualifiedName(string(name)))
	if !strings.Contains(string(name), "/") && !isHugePages(name) && !slices.Contains(nativeResources, name) {
		r.invalid(p, string(name), "must be a standard resource for containers or have a domain prefix")
	}
	if q.Sign() < 0 {
		r.invalid(p, q.String(), "must be greater than or equal to 0")
	}
	if !slices.Contains(nativeResources, name) && q.MilliValue()%1000 != 0 {
		r.invalid(p, q.String(), "must be an integer")
	}
}

// isOvercommittable reports whether a request may be lower than the limit. Only resources allocated
// by the node itself may be overcommitted.
func isOvercommittable(name v1.ResourceName) bool { return slices.Contains(nativeResources, name) }

func validatePodResources(r *report, spec *v1.PodSpec, p *field.Path) {
	for _, name := range sortedKeys(spec.Overhead) {
		validateQuantity(r, spec.Overhead, name, p.Child("overhead").Key(shorten(string(name))))
	}
	if spec.Resources == nil {
		return
	}
	at := p.Child("resources")
	validateResources(r, spec.Resources, spec.ResourceClaims, at)
	for _, list := range []struct {
		name string
		list v1.ResourceList
	}{{"limits", spec.Resources.Limits}, {"requests", spec.Resources.Requests}} {
		for _, name := range sortedKeys(list.list) {
			if !isPodLevel(name) {
				r.errs = append(r.errs, field.NotSupported(at.Child(list.name).Key(shorten(string(name))),
					shorten(string(name)), []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceHugePagesPrefix + "*"}))
			}
		}
	}
	total := totalOf(spec, func(c *v1.Container) v1.ResourceList { return c.Resources.Requests })
	for _, name := range sortedKeys(spec.Resources.Requests) {
		request, sum := spec.Resources.Requests[name], total[name]
		if request.Cmp(sum) < 0 {
			r.invalid(at.Child("requests").Key(shorten(string(name))), request.String(),
				"must be greater than or equal to aggregate container requests of "+sum.String())
		}
	}
}
