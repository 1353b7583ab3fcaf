// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/runtime/cri"
)

// dnsFlags configure the resolv.conf of pods. Names and meaning are those of the kubelet's
// configuration (1.36).
type dnsFlags struct {
	servers    []string
	domain     string
	resolvConf string
}

func (d *dnsFlags) register(set *pflag.FlagSet) {
	set.StringSliceVar(&d.servers, "cluster-dns", nil, "with a container runtime: addresses of the cluster's DNS servers, for pods with dnsPolicy ClusterFirst, as `address,...`; without the flag, such pods use the node's servers")
	set.StringVar(&d.domain, "cluster-domain", "", "domain of the cluster, e.g. cluster.local: a search domain of the pods that use --cluster-dns")
	set.StringVar(&d.resolvConf, "resolv-conf", "", "with a container runtime: the file that names the node's DNS servers (default /etc/resolv.conf)")
}

// check refuses flags that cannot take effect on the endpoint.
func (d *dnsFlags) check(endpoint string) error {
	set := len(d.servers) > 0 || d.domain != "" || d.resolvConf != ""
	switch {
	case set && endpoint == processEndpoint:
		return errors.New("--cluster-dns, --cluster-domain and --resolv-conf are for a container runtime: processes use the node's DNS")
	case d.domain != "" && len(d.servers) == 0:
		return errors.New("--cluster-domain without --cluster-dns: no pod would use it")
	case d.domain != "" && len(validation.IsDNS1123Subdomain(d.domain)) > 0:
		return fmt.Errorf("--cluster-domain %q: %s", d.domain, validation.IsDNS1123Subdomain(d.domain)[0])
	}
	for _, server := range d.servers {
		if _, err := netip.ParseAddr(server); err != nil {
			return fmt.Errorf("--cluster-dns %q: want an IP address", server)
		}
	}
	return nil
}

// options returns the DNS settings of the CRI backend.
func (d *dnsFlags) options() cri.DNS {
	return cri.DNS{Servers: d.servers, Domain: d.domain, ResolvConf: d.resolvConf}
}
