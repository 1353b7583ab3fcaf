// SPDX-License-Identifier: Apache-2.0

package admission

import (
	v1 "k8s.io/api/core/v1"
)

// hostPort is a port of the node used by a container.
type hostPort struct {
	ip       string // everyAddress, or a single address
	protocol v1.Protocol
	port     int32
}

const everyAddress = "0.0.0.0"

// hostPorts returns the host ports of containers and sidecars, which run at the same time.
func hostPorts(pod *v1.Pod) (ports []hostPort) {
	collect := func(c *v1.Container) {
		for _, p := range c.Ports {
			port := p.HostPort
			if port == 0 && pod.Spec.HostNetwork {
				port = p.ContainerPort // as in the API server's defaulting
			}
			if port <= 0 {
				continue
			}
			hp := hostPort{ip: p.HostIP, protocol: p.Protocol, port: port}
			if hp.ip == "" {
				hp.ip = everyAddress
			}
			if hp.protocol == "" {
				hp.protocol = v1.ProtocolTCP
			}
			ports = append(ports, hp)
		}
	}
	for i := range pod.Spec.Containers {
		collect(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if isSidecar(&pod.Spec.InitContainers[i]) {
			collect(&pod.Spec.InitContainers[i])
		}
	}
	return ports
}
