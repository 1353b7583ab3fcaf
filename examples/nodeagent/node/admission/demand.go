// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/sorted"
)

// Demand is the resources and ports that a pod takes from a node, and the pod's importance. It is
// immutable.
type Demand struct {
	Pod *v1.Pod

	static   string   // podfacts.StaticName
	critical bool     // podfacts.IsCritical
	amounts  []amount // in the order of rank, then by name; none of them 0
	ports    []HostPort
}

// amount is a request in a Shortage's units: cpu in thousandths, other resources in their base
// unit.
type amount struct {
	name     v1.ResourceName
	value    int64
	extended bool
}

// DemandOf computes the Demand of a pod. The Demand keeps the pod, so the pod must not be written
// afterwards.
func DemandOf(pod *v1.Pod) *Demand {
	d := &Demand{Pod: pod, ports: HostPorts(pod), static: podfacts.StaticName(pod), critical: podfacts.IsCritical(pod)}
	for name, quantity := range podresources.Requests(pod) {
		if n := count(name, quantity); n != 0 {
			d.amounts = append(d.amounts, amount{name, n, podresources.IsExtended(name)})
		}
	}
	sorted.By(d.amounts, func(a, b amount) int { return cmp.Compare(rank(a.name)+string(a.name), rank(b.name)+string(b.name)) })
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

// IsStatic reports whether the pod is static.
func (d *Demand) IsStatic() bool { return d.static != "" }

// IsNamesake reports whether both pods are static and have the same full name. Such pods do not run at
// the same time.
func (d *Demand) IsNamesake(o *Demand) bool { return d.IsStatic() && d.static == o.static }

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

// HostPort is a port of the node used by a container.
type HostPort struct {
	IP       string // EveryAddress, or a single address
	Protocol v1.Protocol
	Number   int32
}

// EveryAddress is the address of a HostPort without an address of its own.
const EveryAddress = "0.0.0.0"

// Conflicts reports whether a node cannot give both ports to different pods.
func (p HostPort) Conflicts(o HostPort) bool {
	return p.Number == o.Number && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == EveryAddress || o.IP == EveryAddress)
}

// HostPorts returns the host ports of containers and sidecars, which run at the same time.
func HostPorts(pod *v1.Pod) (ports []HostPort) {
	collect := func(c *v1.Container) {
		for _, p := range c.Ports {
			number := p.HostPort
			if number == 0 && pod.Spec.HostNetwork {
				number = p.ContainerPort // as in the API server's defaulting
			}
			if number > 0 {
				ports = append(ports, HostPort{cmp.Or(p.HostIP, EveryAddress), cmp.Or(p.Protocol, v1.ProtocolTCP), number})
			}
		}
	}
	for i := range pod.Spec.Containers {
		collect(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(c) {
			collect(c)
		}
	}
	return ports
}

// Usage is the sum of the demands of a node's active pods. Each method takes a time that does not
// depend on the number of pods. The methods are not safe for concurrent use.
type Usage struct {
	amounts map[v1.ResourceName]int64
	ports   map[portNumber]map[string]int // number of uses, by address
}

// portNumber is a host port regardless of the address.
type portNumber struct {
	protocol v1.Protocol
	port     int32
}

// UsageOf returns the sum of demands.
func UsageOf(demands ...*Demand) *Usage {
	u := &Usage{amounts: make(map[v1.ResourceName]int64), ports: make(map[portNumber]map[string]int)}
	for _, d := range demands {
		u.Add(d)
	}
	return u
}

// Add adds the demand of a pod.
func (u *Usage) Add(d *Demand) { u.count(d, 1) }

// Remove removes a demand that was added.
func (u *Usage) Remove(d *Demand) { u.count(d, -1) }

// count adds d, n times.
func (u *Usage) count(d *Demand, n int) {
	u.amounts[v1.ResourcePods] += int64(n)
	for _, a := range d.amounts {
		u.amounts[a.name] += int64(n) * a.value
	}
	for _, p := range d.ports {
		number := portNumber{p.Protocol, p.Number}
		if u.ports[number] == nil {
			u.ports[number] = make(map[string]int)
		}
		if u.ports[number][p.IP] += n; u.ports[number][p.IP] == 0 {
			delete(u.ports[number], p.IP)
		}
		if len(u.ports[number]) == 0 {
			delete(u.ports, number)
		}
	}
}

// isTaken reports whether a pod uses the port at the same address, or at every address.
func (u *Usage) isTaken(p HostPort) bool {
	addresses := u.ports[portNumber{p.Protocol, p.Number}]
	return len(addresses) > 0 && (p.IP == EveryAddress || addresses[p.IP] > 0 || addresses[EveryAddress] > 0)
}
