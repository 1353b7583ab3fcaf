// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

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
