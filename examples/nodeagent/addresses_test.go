// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func ips(text string) (all []netip.Addr) {
	for word := range strings.FieldsSeq(text) {
		all = append(all, netip.MustParseAddr(word))
	}
	return all
}

func TestChooseAddress(t *testing.T) {
	const local = "10.0.0.7 192.168.1.7 fd00::7"
	for _, c := range []struct {
		name, local, named, routes string
		ipv6                       bool
		want                       string
	}{
		{"that of the node's name", local, "192.168.1.7", "10.0.0.7", false, "192.168.1.7"},
		{"IPv4 of the name's two", local, "fd00::7 192.168.1.7", "10.0.0.7", false, "192.168.1.7"},
		{"IPv6 of the name's two if that is preferred", local, "192.168.1.7 fd00::7", "10.0.0.7", true, "fd00::7"},
		{"the other family of the name", local, "fd00::7", "10.0.0.7", false, "fd00::7"},
		{"the default route's where the name is loopback, as on Debian", local, "127.0.1.1", "10.0.0.7", false, "10.0.0.7"},
		{"where the name is another machine's", local, "10.9.9.9", "10.0.0.7 fd00::7", false, "10.0.0.7"},
		{"where it is link-local, multicast or nothing", local, "fe80::1 ff02::1 ::", "10.0.0.7", false, "10.0.0.7"},
		{"an IPv4 address as an IPv6 address", local, "::ffff:10.0.0.7", "192.168.1.7", false, "10.0.0.7"},
		{"any without name and route", local, "", "", false, "10.0.0.7"},
		{"IPv6 without name and route", local, "", "", true, "fd00::7"},
		{"none", "", "10.0.0.7", "10.0.0.7", false, "invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, chooseAddress(ips(c.local), ips(c.named), ips(c.routes), c.ipv6).String())
		})
	}
}

func TestNodeIP(t *testing.T) {
	for _, bad := range []string{"x", "10.0.0.1/8", "127.0.0.1", "fe80::1", "fe80::1%eth0", "10.0.0.1,10.0.0.2", "fd00::1,fd00::2", "10.0.0.1,fd00::1,10.0.0.3", "10.0.0.1,::"} {
		_, err := parseFlags([]string{t.TempDir(), "--root-dir", t.TempDir(), "--node-ip", bad})
		require.ErrorContains(t, err, "--node-ip", bad)
	}
	for text, want := range map[string][]string{"192.0.2.7": {"192.0.2.7"}, "fd00::7,192.0.2.7": {"fd00::7", "192.0.2.7"}} {
		f, err := parseFlags([]string{t.TempDir(), "--root-dir", t.TempDir(), "--node-ip", text})
		require.NoError(t, err)
		require.Equal(t, want, f.hostIPs(t.Context()))
	}
	f, err := parseFlags([]string{t.TempDir(), "--root-dir", t.TempDir(), "--node-ip", "::"})
	require.NoError(t, err)
	require.True(t, f.addresses.ipv6)
	require.NotEmpty(t, f.hostIPs(t.Context()))
	f.kubeconfig = "k"
	require.Len(t, f.hostIPs(t.Context()), 1, "on a node of a cluster there is one")
}

func TestNodeAddresses(t *testing.T) {
	require.Equal(t, []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeInternalIP, Address: "fd00::1"}, {Type: v1.NodeHostName, Address: "n"},
	}, nodeAddresses("n", []string{"127.0.0.1", "10.0.0.1", "fd00::1"}))
}
