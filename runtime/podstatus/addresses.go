// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// setIPs sets the addresses of the node and of the pod.
func (g *generator) setIPs(out *v1.PodStatus) {
	hosts := addresses(g.HostIPs)
	if len(hosts) == 0 {
		for _, ip := range g.previous.HostIPs {
			hosts = append(hosts, addresses([]string{ip.IP})...)
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
	for _, ip := range onePerFamily(g.podIPs(hosts), hosts) {
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
		return append(addresses(before), hosts...)
	}
	var now []netip.Addr
	if sandbox := g.Observed.Current(); sandbox != nil {
		now = addresses(sandbox.IPs)
	}
	if len(now) == 0 && !(g.mayStart() && !podfacts.IsTerminal(g.previous.Phase)) {
		return addresses(before)
	}
	return now
}

// onePerFamily returns at most one address of each family. The family of the node's primary address
// is first.
func onePerFamily(ips, hosts []netip.Addr) []netip.Addr {
	if len(ips) == 0 {
		return nil
	}
	primary := ips[0].Is4()
	if len(hosts) > 0 {
		primary = hosts[0].Is4()
	}
	var out []netip.Addr
	for _, is4 := range []bool{primary, !primary} {
		for _, ip := range ips {
			if ip.Is4() == is4 {
				out = append(out, ip)
				break
			}
		}
	}
	return out
}

// addresses parses list and drops invalid entries.
func addresses(list []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			ip, err = netip.ParseAddr(withoutLeadingZeros(s))
		}
		if err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

// withoutLeadingZeros turns 010.000.000.001 into 10.0.0.1. Some network plugins print such decimal
// addresses. In an IPv6 address leading zeros are valid, and 0:0::1 keeps its first part.
func withoutLeadingZeros(s string) string {
	if strings.Contains(s, ":") {
		return s
	}
	parts := strings.Split(s, ".")
	for i, part := range parts {
		if trimmed := strings.TrimLeft(part, "0"); trimmed != "" || part == "" {
			parts[i] = trimmed
		} else {
			parts[i] = "0"
		}
	}
	return strings.Join(parts, ".")
}
