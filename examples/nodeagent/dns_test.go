// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestDNSFlags(t *testing.T) {
	for name, c := range map[string]struct {
		flags    dnsFlags
		endpoint string
		want     string // of the error
	}{
		"none":                {endpoint: processEndpoint},
		"cluster":             {flags: dnsFlags{servers: []string{"10.96.0.10", "fd00::a"}, domain: "cluster.local"}, endpoint: "unix:///s"},
		"no domain":           {flags: dnsFlags{servers: []string{"10.96.0.10"}}, endpoint: "unix:///s"},
		"processes":           {flags: dnsFlags{servers: []string{"10.96.0.10"}}, endpoint: processEndpoint, want: "are for a container runtime"},
		"processes, own file": {flags: dnsFlags{resolvConf: "/run/resolv.conf"}, endpoint: processEndpoint, want: "are for a container runtime"},
		"domain alone":        {flags: dnsFlags{domain: "cluster.local"}, endpoint: "unix:///s", want: "--cluster-domain without --cluster-dns"},
		"no such domain":      {flags: dnsFlags{servers: []string{"10.96.0.10"}, domain: "Cluster_local"}, endpoint: "unix:///s", want: `--cluster-domain "Cluster_local": `},
		"no address":          {flags: dnsFlags{servers: []string{"dns.example"}}, endpoint: "unix:///s", want: `--cluster-dns "dns.example": want an IP address`},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.flags.check(c.endpoint)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// A pod on the cluster's network uses the cluster's DNS. A pod with dnsPolicy Default uses the
// node's DNS.
func TestPodsUseTheDNSOfTheCluster(t *testing.T) {
	s := newStation(t, backends["containerd"])
	own := filepath.Join(s.dir, "node-resolv.conf")
	require.NoError(t, os.WriteFile(own, []byte("nameserver 192.0.2.7\nsearch site.example\n"), 0o644))
	for name, policy := range map[string]string{"first": "ClusterFirst", "own": "Default"} {
		manifest, _ := s.service(name, "cat /etc/resolv.conf > "+s.dir+"/"+name+".tmp && mv "+s.dir+"/"+name+".tmp "+s.dir+"/"+name+".conf; "+forever)
		s.write(name+".yaml", manifest+"  dnsPolicy: "+policy+"\n")
	}
	s.start("--cluster-dns", "10.96.0.10", "--cluster-domain", "cluster.local", "--resolv-conf", own)
	for name, want := range map[string]string{
		"first": "search default.svc.cluster.local svc.cluster.local cluster.local site.example\nnameserver 10.96.0.10\noptions ndots:5\n",
		"own":   "search site.example\nnameserver 192.0.2.7\n",
	} {
		s.waitPhase(name+"-n", v1.PodRunning)
		path := filepath.Join(s.dir, name+".conf")
		s.eventually(name+" has read its file", func() bool { _, err := os.Stat(path); return err == nil })
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}
