// SPDX-License-Identifier: Apache-2.0

package admission

import (
	v1 "k8s.io/api/core/v1"
)

// hostPort is a port of the node that a container takes.
type hostPort struct {
	ip       string // everyAddress, or one
	protocol v1.Protocol
	port     int32
}

const everyAddress = "0.0.0.0"

// hostPorts are those of the containers that run at the same time.
func hostPorts(pod *v1.Pod) (ports []hostPort) {
	collect := func(c *v1.Container) {
		for _, p := range c.Ports {
			port := p.HostPort
			if port == 0 && pod.Spec.HostNetwork {
				port = p.ContainerPort // as the API server fills it in
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

func portsTaken(active []*Demand, own *Demand) bool {
	if len(own.ports) == 0 {
		return false
	}
	for _, d := range active {
		if d.Pod.UID == own.Pod.UID {
			continue
		}
		for _, theirs := range d.ports {
			for _, mine := range own.ports {
				if theirs.collides(mine) {
					return true
				}
			}
		}
	}
	return false
}

func (p hostPort) collides(q hostPort) bool {
	return p.port == q.port && p.protocol == q.protocol &&
		(p.ip == q.ip || p.ip == everyAddress || q.ip == everyAddress)
}
