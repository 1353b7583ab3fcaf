// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
)

func TestParseResolvConf(t *testing.T) {
	got := parseResolvConf("# head\nnameserver 10.0.0.1\nnameserver\t10.0.0.2 # second\nnameserver\n" +
		"search old.example\nsearch a.example. b.example .\noptions ndots:2 rotate\noptions ndots:3\n; end\nsortlist x")
	assert.Equal(t, resolver{
		servers:  []string{"10.0.0.1", "10.0.0.2"},
		searches: []string{"a.example", "b.example", "."},
		options:  []string{"ndots:3", "rotate"},
	}, got)
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add("nameserver 10.0.0.1\nsearch a b\noptions x:1 x:2\n")
	f.Add("search\n\nnameserver")
	f.Fuzz(func(t *testing.T, text string) {
		r := parseResolvConf(text)
		for _, word := range slices.Concat(r.servers, r.searches, r.options) {
			if strings.ContainsAny(word, " \n\t#;") {
				t.Errorf("%q is no word", word)
			}
		}
		if len(r.options) != len(unique(r.options)) {
			t.Errorf("options %q repeat", r.options)
		}
	})
}

func TestPodDNS(t *testing.T) {
	host := resolver{servers: []string{"192.168.0.1"}, searches: []string{"lan"}, options: []string{"ndots:1"}}
	cluster := DNS{Servers: []string{"10.96.0.10"}, Domain: "cluster.local"}
	clusterSearch := []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "lan"}
	five := "5"
	for _, tt := range []struct {
		name    string
		policy  v1.DNSPolicy
		host    bool
		config  *v1.PodDNSConfig
		cluster DNS
		want    resolver
	}{
		{"cluster first", v1.DNSClusterFirst, false, nil, cluster, resolver{cluster.Servers, clusterSearch, []string{"ndots:5"}}},
		{"no policy", "", false, nil, cluster, resolver{cluster.Servers, clusterSearch, []string{"ndots:5"}}},
		{"cluster first on the host network", v1.DNSClusterFirst, true, nil, cluster, host},
		{"with host net", v1.DNSClusterFirstWithHostNet, true, nil, cluster, resolver{cluster.Servers, clusterSearch, []string{"ndots:5"}}},
		{"no cluster DNS", v1.DNSClusterFirst, false, nil, DNS{}, host},
		{"default", v1.DNSDefault, false, nil, cluster, host},
		{"none", v1.DNSNone, false, &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}}, cluster, resolver{servers: []string{"1.1.1.1"}}},
		{"merged", v1.DNSDefault, false, &v1.PodDNSConfig{
			Nameservers: []string{"1.1.1.1", "192.168.0.1"}, Searches: []string{"lan", "more"},
			Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: &five}, {Name: "rotate"}},
		}, cluster, resolver{[]string{"192.168.0.1", "1.1.1.1"}, []string{"lan", "more"}, []string{"ndots:5", "rotate"}}},
		{"no domain", v1.DNSClusterFirst, false, nil, DNS{Servers: cluster.Servers}, resolver{cluster.Servers, []string{"lan"}, []string{"ndots:5"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod("u", "main")
			pod.Spec.DNSPolicy, pod.Spec.DNSConfig, pod.Spec.HostNetwork = tt.policy, tt.config, tt.host
			got, dropped := podDNS(pod, tt.cluster, host)
			assert.Equal(t, tt.want, resolver{got.Servers, got.Searches, got.Options})
			assert.Empty(t, dropped)
		})
	}
	assert.Equal(t, resolver{[]string{"192.168.0.1"}, []string{"lan"}, []string{"ndots:1"}}, host, "the node's is not written")
}

func TestDNSLimits(t *testing.T) {
	pod := testPod("u", "main")
	config := &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"}}
	config.Searches = append(config.Searches, strings.Repeat("x", 254))
	for i := range 40 {
		config.Searches = append(config.Searches, fmt.Sprintf("s%d", i))
	}
	pod.Spec.DNSPolicy, pod.Spec.DNSConfig = v1.DNSNone, config
	got, dropped := podDNS(pod, DNS{}, resolver{})
	assert.Equal(t, []string{"1.1.1.1", "2.2.2.2", "3.3.3.3"}, got.Servers)
	assert.Len(t, got.Searches, 32)
	assert.Len(t, dropped, 1+1+8)

	config.Searches = nil
	for i := range 20 {
		config.Searches = append(config.Searches, fmt.Sprintf("%s%02d", strings.Repeat("y", 198), i))
	}
	got, dropped = podDNS(pod, DNS{}, resolver{})
	assert.LessOrEqual(t, len(strings.Join(got.Searches, " ")), 2048)
	assert.Len(t, got.Searches, 10)
	assert.Len(t, dropped, 1+10)
}

func TestPodHosts(t *testing.T) {
	pod := testPod("u", "main")
	pod.Spec.Subdomain = "db"
	pod.Spec.HostAliases = []v1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}, {IP: "::5", Hostnames: []string{"c\n6.6.6.6 evil"}}}
	const local = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
	const aliases = "\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n::5\tc 6.6.6.6 evil\n"
	assert.Equal(t, local+"10.0.0.7\tweb.db.ns.svc.cluster.local\tweb\nfd00::7\tweb.db.ns.svc.cluster.local\tweb\n"+aliases,
		podHosts(pod, "web", "cluster.local", []string{"10.0.0.7", "fd00::7"}))
	assert.Equal(t, local+"10.0.0.7\tweb\n"+aliases, podHosts(pod, "web", "", []string{"10.0.0.7"}))
	assert.Equal(t, "# Kubernetes-managed hosts file (host network).\n127.0.0.1 x\n"+aliases, hostNetworkHosts(pod, "127.0.0.1 x"))
	pod.Spec.HostAliases = nil
	assert.Equal(t, "# Kubernetes-managed hosts file (host network).\n127.0.0.1 x\n", hostNetworkHosts(pod, "127.0.0.1 x\n"))
	pod.Spec.HostnameOverride = new("other")
	assert.Equal(t, local+"10.0.0.7\tother\n", podHosts(pod, "other", "cluster.local", []string{"10.0.0.7"}), "an override is the whole name")
}
