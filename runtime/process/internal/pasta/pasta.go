// SPDX-License-Identifier: Apache-2.0

// Package pasta has the arguments of pasta (https://passt.top), which connects the network namespace of
// a pod with the network of the host without rights, and the pod's resolv.conf. Pure.
package pasta

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Resolver is an address in each network namespace at which pasta answers for the host's first name server.
const Resolver = "169.254.1.1"

// Args returns the arguments of pasta for a pod, with its host ports in the order of its containers. The
// pod has the addresses, the first of each family, or by default those of the host. With resolve, pasta
// answers at Resolver. The caller adds the process to connect.
//
// No process of the pod reaches the host's loopback: pasta forwards the pod's loopback and the
// gateway's address to there if not told otherwise.
func Args(pod *v1.Pod, addresses []string, resolve bool) []string {
	args := []string{"--foreground", "--quiet", "--config-net", "--no-map-gw", "--tcp-ns", "none", "--udp-ns", "none"}
	if resolve { // pasta also changes the sender of answers to queries of other addresses
		args = append(args, "--dns-forward", Resolver)
	}
	families := map[bool]bool{}
	for _, text := range addresses {
		if a, err := netip.ParseAddr(text); err == nil && !families[a.Is4()] {
			families[a.Is4()] = true
			args = append(args, "--address", text)
		}
	}
	tcp, udp := forwards(pod, v1.ProtocolTCP), forwards(pod, v1.ProtocolUDP)
	for _, f := range tcp {
		args = append(args, "--tcp-ports", f)
	}
	for _, f := range udp {
		args = append(args, "--udp-ports", f)
	}
	return args
}

// forwards returns the host ports of a pod, as pasta takes them.
func forwards(pod *v1.Pod, protocol v1.Protocol) (out []string) {
	seen := map[string]bool{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, p := range list[i].Ports {
				if p.HostPort == 0 || cmp.Or(p.Protocol, v1.ProtocolTCP) != protocol {
					continue
				}
				from := ""
				if a, err := netip.ParseAddr(p.HostIP); err == nil && !a.IsUnspecified() {
					from = p.HostIP + "/"
				}
				if at := fmt.Sprintf("%s%d", from, p.HostPort); !seen[at] { // an init container may name a port again
					seen[at] = true
					out = append(out, fmt.Sprintf("%s:%d", at, p.ContainerPort))
				}
			}
		}
	}
	if out == nil {
		return []string{"none"}
	}
	return out
}

// ResolvConf returns the resolv.conf of a pod, from that of the host. If the host's first name server is on
// the loopback, which no pod reaches, Resolver takes the place of all name servers.
func ResolvConf(host string) (pod string, changed bool) {
	var out []string
	servers := 0
	for line := range strings.Lines(host) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			if servers++; servers == 1 && loopback(fields[1]) {
				line, changed = "nameserver "+Resolver+"\n", true
			} else if changed {
				continue
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, ""), changed
}

func loopback(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.IsLoopback()
}
