// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Demand is what a pod takes of a node, computed once: sums over other pods are
// made at every admission. It is never written.
type Demand struct {
	Pod *v1.Pod

	amounts []amount // sorted by name, none of them 0
	ports   []hostPort
}

// amount is a request: cpu in thousandths, others as they are.
type amount struct {
	name  v1.ResourceName
	value int64
}

// DemandOf computes what a pod takes. The pod is kept and not to be written.
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

// Of returns how much of a resource the pod asks for, in a Shortage's units.
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

// Asks reports whether the pod asks for anything that another may have: an amount
// of something, or a port.
func (d *Demand) Asks() bool { return len(d.amounts)+len(d.ports) > 0 }

// rank keeps the kubelet's order of reasons: cpu, memory, storage, then the rest.
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

func count(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// Requests is what a pod asks for as a whole, as the scheduler counts it
// (Kubernetes 1.36): its containers run at the same time, init containers one
// after the other beside the sidecars before them; requests of the pod as a whole
// replace that, and overhead comes on top. The result is the caller's.
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

// requestsOf returns a copy of a container's requests, where missing its limits.
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

// isExtended reports whether a resource is one that Kubernetes itself knows
// nothing of, such as example.com/gpu.
func isExtended(name v1.ResourceName) bool {
	s := string(name)
	if !strings.Contains(s, "/") || strings.Contains(s, v1.ResourceDefaultNamespacePrefix) || strings.HasPrefix(s, v1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+s)) == 0
}
