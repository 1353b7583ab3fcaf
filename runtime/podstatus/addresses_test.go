// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podaddress"
)

func TestAddresses(t *testing.T) {
	const v4, v6 = "192.168.0.1", "fd00::1"
	ips := func(list ...string) *v1.PodStatus {
		st := &v1.PodStatus{HostIPs: []v1.HostIP{{IP: v4}}}
		for _, ip := range list {
			st.PodIPs = append(st.PodIPs, v1.PodIP{IP: ip})
		}
		return st
	}
	finished := ips("10.0.0.9")
	finished.Phase = v1.PodSucceeded
	for _, c := range []struct {
		name     string
		pod      []string
		sandbox  string
		hosts    []string
		previous *v1.PodStatus
		stage    Stage
		wantHost string
		want     string
	}{
		{"of the sandbox", nil, "sandbox s", []string{v4}, nil, StageSync, v4, "10.0.0.1"},
		{"normalised", nil, "sandbox s ip=010.000.000.001", []string{v4}, nil, StageSync, v4, "10.0.0.1"},
		{"IPv6 that begins with a zero", nil, "sandbox s ip=0:0::5", []string{v6}, nil, StageSync, v6, "::5"},
		{"IPv4 in IPv6 is IPv4", nil, "sandbox s ip=::ffff:10.0.0.1", []string{v4}, nil, StageSync, v4, "10.0.0.1"},
		{"the node's primary family first", nil, "sandbox s ip=10.0.0.1,fd00::0005", []string{v6, v4}, nil, StageSync, "fd00::1,192.168.0.1", "fd00::5,10.0.0.1"},
		{"without a node the first one's family", nil, "sandbox s ip=fd00::5,10.0.0.1", nil, nil, StageSync, "", "fd00::5,10.0.0.1"},
		{"one of each family", nil, "sandbox s ip=10.0.0.1,10.0.0.2,fd00::5,fd00::6", []string{v4}, nil, StageSync, v4, "10.0.0.1,fd00::5"},
		{"only of the other family", nil, "sandbox s ip=fd00::5", []string{v4}, nil, StageSync, v4, "fd00::5"},
		{"what is no address is dropped", nil, "sandbox s ip=nonsense,10.0.0.1", []string{"?", v4}, nil, StageSync, v4, "10.0.0.1"},
		{"none without a sandbox", nil, "sandbox s dead", []string{v4}, ips("10.0.0.9"), StageSync, v4, ""},
		{"kept while terminating", nil, "sandbox s dead", []string{v4}, ips("10.0.0.9"), StageTerminating, v4, "10.0.0.9"},
		{"kept while being deleted", []string{"deleted"}, "sandbox s dead", []string{v4}, ips("10.0.0.9"), StageSync, v4, "10.0.0.9"},
		{"kept once finished", nil, "sandbox s dead", []string{v4}, finished, StageSync, v4, "10.0.0.9"},
		{"hostNetwork: the node's", []string{"hostNetwork"}, "sandbox s", []string{v4, v6}, nil, StageSync, "192.168.0.1,fd00::1", "192.168.0.1,fd00::1"},
		{"hostNetwork: kept once set", []string{"hostNetwork"}, "sandbox s", []string{"192.168.0.7"}, ips(v4), StageSync, "192.168.0.7", v4},
		{"hostNetwork: a second family joins", []string{"hostNetwork"}, "sandbox s", []string{"192.168.0.7", v6}, ips(v4), StageSync, "192.168.0.7,fd00::1", "192.168.0.1,fd00::1"},
		{"the node's are kept if not given", nil, "sandbox s", nil, ips(), StageSync, v4, "10.0.0.1"},
		{"all of the node's are kept", nil, "sandbox s", nil, &v1.PodStatus{HostIPs: []v1.HostIP{{IP: v4}, {IP: v6}}}, StageSync, "192.168.0.1,fd00::1", "10.0.0.1"},
		{"all of the pod's are kept", nil, "sandbox s dead", []string{v4}, ips("10.0.0.9", "fd00::9"), StageTerminating, v4, "10.0.0.9,fd00::9"},
		{"of the sandbox while terminating", nil, "sandbox s", []string{v4}, nil, StageTerminating, v4, "10.0.0.1"},
		{"the only family of the node first", nil, "sandbox s ip=10.0.0.1,fd00::5", []string{v6}, nil, StageSync, v6, "fd00::5,10.0.0.1"},
		{"an empty part is no zero", nil, "sandbox s ip=10..0.1", []string{v4}, nil, StageSync, v4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(t, always, append([]string{"main a"}, c.pod...)...)
			out := Generate(Input{Pod: pod, Observed: seen(t, c.sandbox), Previous: c.previous, HostIPs: c.hosts, Stage: c.stage, Now: noon})
			var hosts, pods []string
			for _, ip := range out.HostIPs {
				hosts = append(hosts, ip.IP)
			}
			for _, ip := range out.PodIPs {
				pods = append(pods, ip.IP)
			}
			assert.Equal(t, c.wantHost, strings.Join(hosts, ","))
			assert.Equal(t, c.want, strings.Join(pods, ","))
			first, _, _ := strings.Cut(c.wantHost, ",")
			assert.Equal(t, first, out.HostIP)
			first, _, _ = strings.Cut(c.want, ",")
			assert.Equal(t, first, out.PodIP)
		})
	}
}

func FuzzAddresses(f *testing.F) {
	for _, s := range []string{"", "10.0.0.1", "010.000.000.001", "0.0.0.0", "00.1.2.3", "1.2.3", "1..2.3", "fd00::1", "::ffff:1.2.3.4", "fe80::1%eth0", "0x1.2.3.4", "0:0::0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := podaddress.Parse([]string{s})
		if want, err := netip.ParseAddr(s); err == nil {
			assert.Equal(t, []netip.Addr{want.Unmap()}, got, "what the standard library reads")
		}
		for _, ip := range got {
			assert.Equal(t, []netip.Addr{ip}, podaddress.Parse([]string{ip.String()}), "the normal form is its own")
		}
	})
}
