// SPDX-License-Identifier: Apache-2.0

// Package podaddress reads the addresses of pods and nodes, and selects the addresses that a status and a
// container's environment show.
package podaddress

import (
	"net/netip"
	"strings"
)

// OnePerFamily returns at most one address of each family. The family of the node's primary address
// is first. Without a known address of the node, the family of the first of ips is first.
func OnePerFamily(ips, hosts []netip.Addr) []netip.Addr {
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

// Parse parses list and drops invalid entries.
func Parse(list []string) []netip.Addr {
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
