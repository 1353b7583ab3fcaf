// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/quantities"
)

// Demand is the resources and ports that a pod takes from a node. It is immutable.
type Demand struct {
	Pod *v1.Pod

	amounts []amount // sorted by name, none of them 0
	ports   []HostPort
}

// amount is a request in a Shortage's units: cpu in thousandths, other resources in their base
// unit.
type amount struct {
	name  v1.ResourceName
	value int64
}

// DemandOf computes the Demand of a pod. The Demand keeps the pod, so the pod must not be written
// afterwards.
func DemandOf(pod *v1.Pod) *Demand {
	d := &Demand{Pod: pod, ports: HostPorts(pod)}
	for name, quantity := range podresources.Requests(pod) {
		if n := count(name, quantity); n != 0 {
			d.amounts = append(d.amounts, amount{name, n})
		}
	}
	slices.SortFunc(d.amounts, func(a, b amount) int { return cmp.Compare(rank(a.name)+string(a.name), rank(b.name)+string(b.name)) })
	return d
}

// Of returns the requested amount of a resource, in a Shortage's units.
func (d *Demand) Of(name v1.ResourceName) int64 {
	if name == v1.ResourcePods {
		return 1
	}
	for _, a := range d.amounts {
		if a.name == name {
			return a.value
		}
	}
	return 0
}

// Asks reports whether the pod requests any resource or host port.
func (d *Demand) Asks() bool { return len(d.amounts)+len(d.ports) > 0 }

// rank returns a sort key in the kubelet's order of reasons: cpu, memory, ephemeral storage, other
// resources.
func rank(name v1.ResourceName) string {
	switch name {
	case v1.ResourceCPU:
		return "0"
	case v1.ResourceMemory:
		return "1"
	case v1.ResourceEphemeralStorage:
		return "2"
	}
	return "3"
}

// most is more than any node has of a resource. Requests above it count as it: a hundred of them can be
// added up.
const most = 1 << 56

func count(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return min(quantities.Milli(q), most)
	}
	return min(quantities.Value(q), most)
}

// Extended returns the extended resources that the pod requests, sorted by name.
func (d *Demand) Extended() (names []v1.ResourceName) {
	for _, a := range d.amounts {
		if podresources.IsExtended(a.name) {
			names = append(names, a.name)
		}
	}
	return names
}
