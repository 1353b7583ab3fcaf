// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// nativeResources are the resource names without a domain allowed in containers.
var nativeResources = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

func (c *checker) resources(res *v1.ResourceRequirements, p *field.Path) {
	for _, name := range sortedKeys(res.Limits) {
		c.quantity(res.Limits, name, p.Child("limits").Key(shorten(string(name))))
	}
	for _, name := range sortedKeys(res.Requests) {
		at := p.Child("requests").Key(shorten(string(name)))
		c.quantity(res.Requests, name, at)
		request, limit := res.Requests[name], res.Limits[name]
		_, limited := res.Limits[name]
		switch {
		case limited && request.Cmp(limit) > 0:
			c.invalid(at, request.String(), "must be less than or equal to "+string(name)+" limit of "+limit.String())
		case !isOvercommittable(name) && (!limited || request.Cmp(limit) != 0):
			c.invalid(at, request.String(), "must be equal to the limit, this resource cannot be overcommitted")
		}
	}
	for i, claim := range res.Claims {
		if !slices.ContainsFunc(c.spec.ResourceClaims, func(pod v1.PodResourceClaim) bool { return pod.Name == claim.Name }) {
			c.errs = append(c.errs, field.NotFound(p.Child("claims").Index(i).Child("name"), shorten(claim.Name)))
		}
	}
	if res == c.spec.Resources {
		c.podResources(res, p)
	}
}

func (c *checker) quantity(list v1.ResourceList, name v1.ResourceName, p *field.Path) {
	q := list[name]
	c.match(p, string(name), validation.IsQualifiedName)
	if !strings.Contains(string(name), "/") && !podresources.IsHugePages(name) && !slices.Contains(nativeResources, name) {
		c.invalid(p, string(name), "must be a standard resource for containers or have a domain prefix")
	}
	if q.Sign() < 0 {
		c.invalid(p, q.String(), "must be greater than or equal to 0")
	}
	if !slices.Contains(nativeResources, name) && q.MilliValue()%1000 != 0 {
		c.invalid(p, q.String(), "must be an integer")
	}
}

// isOvercommittable reports whether a request may be lower than the limit. Only resources allocated
// by the node itself may be overcommitted.
func isOvercommittable(name v1.ResourceName) bool { return slices.Contains(nativeResources, name) }

func (c *checker) podResources(res *v1.ResourceRequirements, p *field.Path) {
	podLevel := func(list v1.ResourceList, p *field.Path) {
		for _, name := range sortedKeys(list) {
			if !podresources.IsPodLevel(name) {
				c.errs = append(c.errs, field.NotSupported(p.Key(shorten(string(name))), shorten(string(name)),
					[]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceHugePagesPrefix + "*"}))
			}
		}
	}
	podLevel(res.Limits, p.Child("limits"))
	podLevel(res.Requests, p.Child("requests"))
	total := podresources.Peak(c.spec, func(c *v1.Container) v1.ResourceList { return c.Resources.Requests })
	for _, name := range sortedKeys(res.Requests) {
		request, sum := res.Requests[name], total[name]
		if request.Cmp(sum) < 0 {
			c.invalid(p.Child("requests").Key(shorten(string(name))), request.String(),
				"must be greater than or equal to aggregate container requests of "+sum.String())
		}
	}
}
