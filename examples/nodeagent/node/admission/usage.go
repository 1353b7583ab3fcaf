// SPDX-License-Identifier: Apache-2.0

package admission

import v1 "k8s.io/api/core/v1"

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
