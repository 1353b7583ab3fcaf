// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Resources is an amount of each resource.
type Resources struct {
	CPU       int64 // thousandths of a core
	Memory    int64 // bytes
	Ephemeral int64 // bytes
	// Scalars are all other resources, sorted by name.
	Scalars []Scalar
}

// Scalar is an amount of an extended resource.
type Scalar struct {
	Name  v1.ResourceName
	Value int64
}

// ResourcesOf converts a list. The resource "pods" is left out.
func ResourcesOf(list v1.ResourceList) Resources {
	var r Resources
	for name, quantity := range list {
		switch name {
		case v1.ResourceCPU:
			r.CPU = quantity.MilliValue()
		case v1.ResourceMemory:
			r.Memory = quantity.Value()
		case v1.ResourceEphemeralStorage:
			r.Ephemeral = quantity.Value()
		case v1.ResourcePods:
		default:
			r.Scalars = append(r.Scalars, Scalar{name, quantity.Value()})
		}
	}
	slices.SortFunc(r.Scalars, func(a, b Scalar) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return r
}

// Of returns the amount of a resource, 0 for an unknown resource.
func (r *Resources) Of(name v1.ResourceName) int64 {
	switch name {
	case v1.ResourceCPU:
		return r.CPU
	case v1.ResourceMemory:
		return r.Memory
	case v1.ResourceEphemeralStorage:
		return r.Ephemeral
	}
	for i := range r.Scalars {
		if r.Scalars[i].Name == name {
			return r.Scalars[i].Value
		}
	}
	return 0
}

// add adds sign times o. The scalars of r and of o are not shared.
func (r *Resources) add(o *Resources, sign int64) {
	r.CPU += sign * o.CPU
	r.Memory += sign * o.Memory
	r.Ephemeral += sign * o.Ephemeral
	for _, s := range o.Scalars {
		i, found := slices.BinarySearchFunc(r.Scalars, s.Name, func(have Scalar, name v1.ResourceName) int {
			return strings.Compare(string(have.Name), string(name))
		})
		if !found {
			r.Scalars = slices.Insert(r.Scalars, i, Scalar{Name: s.Name})
		}
		r.Scalars[i].Value += sign * s.Value
	}
}
