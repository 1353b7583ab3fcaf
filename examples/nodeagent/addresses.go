// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
)

// addressFlags choose the node's addresses.
type addressFlags struct {
	texts []string

	given []netip.Addr // this and the following fields are set by complete: one of each family at most
	ipv6  bool         // prefer IPv6 where nothing is given
	names *nameCache
}

// nameCache keeps the addresses of the node's name for nameAge.
type nameCache struct {
	mu  sync.Mutex
	at  time.Time
	ips []netip.Addr
}

const nameAge = 10 * time.Second

// lookUp returns the addresses of a name, none if the look-up fails.
func (c *nameCache) lookUp(ctx context.Context, name string) []netip.Addr {
	c.mu.Lock()
	at, ips := c.at, c.ips
	c.mu.Unlock()
	if !at.IsZero() && time.Since(at) < nameAge {
		return ips
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpPatience)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		ips = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.ips = time.Now(), ips
	return ips
}

func (a *addressFlags) register(set *pflag.FlagSet) {
	set.StringSliceVar(&a.texts, "node-ip", nil, "address of this node, or one of each family as `address,address`; 0.0.0.0 or :: = choose one of that family (default with --kubeconfig: the address of the node's name or else of the default route)")
}

// complete parses the addresses.
func (a *addressFlags) complete() error {
	a.names = &nameCache{}
	for _, text := range a.texts {
		ip, err := netip.ParseAddr(text)
		switch {
		case err != nil || ip.Zone() != "":
			return fmt.Errorf("--node-ip %q: want an IP address", text)
		case ip.IsUnspecified() && len(a.texts) == 1:
			a.ipv6 = ip.Is6()
			return nil
		case !isUsable(ip):
			return fmt.Errorf("--node-ip %s: want an address that other nodes can reach", text)
		}
		a.given = append(a.given, ip.Unmap())
	}
	if len(a.given) > 2 || len(a.given) == 2 && a.given[0].Is4() == a.given[1].Is4() {
		return fmt.Errorf("--node-ip %s: want one address, or one of each family", strings.Join(a.texts, ","))
	}
	return nil
}

func isUsable(ip netip.Addr) bool {
	return ip.IsValid() && !ip.IsLoopback() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast() && !ip.IsUnspecified()
}

// lookUpPatience limits the look-up of the node's name.
const lookUpPatience = 2 * time.Second

// hostIPs returns the node's addresses, which pods on the host's network have, too. These are the
// addresses of --node-ip. Without the flag, a node of a cluster has the address that a kubelet
// chooses, and another node has the first address of each family. Without a network, hostIPs
// returns 127.0.0.1, so that probes still have an address.
func (f *flags) hostIPs(ctx context.Context) []string {
	local := interfaceAddresses()
	ips := f.addresses.given
	switch {
	case len(ips) > 0:
	case f.kubeconfig == "":
		ips = onePerFamily(local)
	default:
		named := f.addresses.names.lookUp(ctx, f.node)
		if ip := chooseAddress(local, named, routeAddresses(), f.addresses.ipv6); ip.IsValid() {
			ips = []netip.Addr{ip}
		}
	}
	if len(ips) == 0 {
		return []string{"127.0.0.1"}
	}
	var texts []string
	for _, ip := range ips {
		texts = append(texts, ip.String())
	}
	return texts
}

// chooseAddress returns a usable address of an interface, like the kubelet (1.36): an address of
// the node's name, otherwise the address of the default route, otherwise any address. Of several
// addresses, the first of the preferred family is chosen. The zero Addr means that there is no
// usable address.
func chooseAddress(local, named, routes []netip.Addr, ipv6 bool) netip.Addr {
	for _, list := range [][]netip.Addr{named, routes, local} {
		list = slices.Clone(list)
		for i := range list {
			list[i] = list[i].Unmap()
		}
		list = slices.DeleteFunc(list, func(ip netip.Addr) bool { return !isUsable(ip) || !slices.Contains(local, ip) })
		if i := slices.IndexFunc(list, func(ip netip.Addr) bool { return ip.Is6() == ipv6 }); i >= 0 {
			return list[i]
		}
		if len(list) > 0 {
			return list[0]
		}
	}
	return netip.Addr{}
}

// interfaceAddresses returns the usable addresses of all interfaces.
func interfaceAddresses() (all []netip.Addr) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && isUsable(ip.Unmap()) {
				all = append(all, ip.Unmap())
			}
		}
	}
	return all
}

// routeAddresses returns the source addresses of packets to other networks. Its connections send no
// packet, and their destinations are addresses that are reserved for documentation.
func routeAddresses() (all []netip.Addr) {
	for _, to := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		c, err := net.Dial("udp", to)
		if err != nil {
			continue // there is no route of this family
		}
		if from, ok := c.LocalAddr().(*net.UDPAddr); ok {
			all = append(all, from.AddrPort().Addr())
		}
		c.Close()
	}
	return all
}

// onePerFamily returns the first IPv4 and the first IPv6 address.
func onePerFamily(all []netip.Addr) (ips []netip.Addr) {
	for _, is := range []func(netip.Addr) bool{netip.Addr.Is4, netip.Addr.Is6} {
		if i := slices.IndexFunc(all, is); i >= 0 {
			ips = append(ips, all[i])
		}
	}
	return ips
}

// nodeAddresses returns the addresses of the Node status: InternalIPs, then the name.
func nodeAddresses(name string, ips []string) (all []v1.NodeAddress) {
	for _, ip := range ips {
		if parsed := net.ParseIP(ip); parsed != nil && !parsed.IsLoopback() {
			all = append(all, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
		}
	}
	return append(all, v1.NodeAddress{Type: v1.NodeHostName, Address: name})
}
