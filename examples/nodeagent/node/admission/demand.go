// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/quantities"
)

// Demand is the resources and ports that a pod takes from a node. It is immutable.
type Demand struct {
	Pod *v1.Pod

	amounts []amount // sorted by name, none of them 0
	ports   []hostPort
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
	d := &Demand{Pod: pod, ports: hostPorts(pod)}
	for name, quantity := range Requests(pod) {
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

// Requests returns the requests of a whole pod, as the scheduler (Kubernetes 1.36) computes them.
// Containers and sidecars run at the same time and are added. An init container is added to the
// sidecars before it. The larger of both results counts. Pod-level requests replace it, and
// overhead is added. The caller owns the result.
func Requests(pod *v1.Pod) v1.ResourceList {
	total, sidecars, peak := v1.ResourceList{}, v1.ResourceList{}, v1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(total, requestsOf(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		own := requestsOf(c)
		if isSidecar(c) {
			add(total, own)
			add(sidecars, own)
			raise(peak, sidecars)
			continue
		}
		add(own, sidecars)
		raise(peak, own)
	}
	raise(total, peak)
	if whole := pod.Spec.Resources; whole != nil {
		for name, quantity := range whole.Requests {
			if name == v1.ResourceCPU || name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
				total[name] = quantity.DeepCopy()
			}
		}
	}
	add(total, pod.Spec.Overhead)
	return total
}

// requestsOf returns a copy of a container's requests. A limit replaces a missing request.
func requestsOf(c *v1.Container) v1.ResourceList {
	own := make(v1.ResourceList, len(c.Resources.Requests))
	for name, quantity := range c.Resources.Limits {
		own[name] = quantity.DeepCopy()
	}
	for name, quantity := range c.Resources.Requests {
		own[name] = quantity.DeepCopy()
	}
	return own
}

func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func add(to, list v1.ResourceList) {
	for name, quantity := range list {
		sum := to[name]
		sum.Add(quantity)
		to[name] = sum
	}
}

func raise(to, list v1.ResourceList) {
	for name, quantity := range list {
		if have, ok := to[name]; !ok || quantity.Cmp(have) > 0 {
			to[name] = quantity.DeepCopy()
		}
	}
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
