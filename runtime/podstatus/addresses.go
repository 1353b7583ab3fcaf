// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podaddress"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// setIPs sets the addresses of the node and of the pod.
func (g *generator) setIPs(out *v1.PodStatus) {
	hosts := podaddress.Parse(g.HostIPs)
	if len(hosts) == 0 {
		for _, ip := range g.previous.HostIPs {
			hosts = append(hosts, podaddress.Parse([]string{ip.IP})...)
		}
	}
	out.HostIP, out.HostIPs = "", nil
	for _, ip := range hosts {
		out.HostIPs = append(out.HostIPs, v1.HostIP{IP: ip.String()})
	}
	if len(hosts) > 0 {
		out.HostIP = hosts[0].String()
	}

	out.PodIP, out.PodIPs = "", nil
	for _, ip := range podaddress.OnePerFamily(g.podIPs(hosts), hosts) {
		out.PodIPs = append(out.PodIPs, v1.PodIP{IP: ip.String()})
	}
	if len(out.PodIPs) > 0 {
		out.PodIP = out.PodIPs[0].IP
	}
}

// podIPs returns the addresses of the current sandbox. A stopped pod keeps its addresses. A pod
// that waits for a new sandbox has no addresses. A pod on the host's network has the node's
// addresses. Once set, the node's addresses stay, and a second family may be added.
func (g *generator) podIPs(hosts []netip.Addr) []netip.Addr {
	var before []string
	for _, ip := range g.previous.PodIPs {
		before = append(before, ip.IP)
	}
	if g.Pod.Spec.HostNetwork {
		return append(podaddress.Parse(before), hosts...)
	}
	var now []netip.Addr
	if sandbox := g.Observed.Current(); sandbox != nil {
		now = podaddress.Parse(sandbox.IPs)
	}
	if len(now) == 0 && !(g.mayStart() && !podfacts.IsTerminal(g.previous.Phase)) {
		return podaddress.Parse(before)
	}
	return now
}
