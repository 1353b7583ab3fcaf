// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Limits of a resolv.conf: the C library's and the API's.
const (
	maxServers      = 3
	maxSearches     = 32
	maxSearchLength = 2048 // sum of all names with a blank between
	maxSearchName   = 253
)

// resolver is the content of a resolv.conf.
type resolver struct{ servers, searches, options []string }

// parseResolvConf reads the format of resolv.conf(5). Unknown lines are left out. Of several search
// lines the last counts; options add up.
func parseResolvConf(text string) resolver {
	var r resolver
	for line := range strings.Lines(text) {
		if i := strings.IndexAny(line, "#;"); i >= 0 {
			line = line[:i]
		}
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "nameserver":
			r.servers = append(r.servers, f[1:min(2, len(f))]...)
		case "search":
			r.searches = nil
			for _, s := range f[1:] {
				r.searches = append(r.searches, trimDot(s))
			}
		case "options":
			r.options = mergeOptions(r.options, f[1:])
		}
	}
	return r
}

// trimDot removes the last dot, except from ".".
func trimDot(domain string) string {
	if domain == "." {
		return domain
	}
	return strings.TrimSuffix(domain, ".")
}

// wantsHostDNS reports whether the pod's resolv.conf depends on the node's.
func wantsHostDNS(pod *v1.Pod) bool { return pod.Spec.DNSPolicy != v1.DNSNone }

// podDNS is the pod's resolv.conf, by the 1.36 kubelet's rules. host is the node's. dropped lists
// the servers and searches beyond the limits.
func podDNS(pod *v1.Pod, cluster DNS, host resolver) (config *api.DNSConfig, dropped []string) {
	var r resolver
	switch {
	case pod.Spec.DNSPolicy == v1.DNSNone:
	case wantsClusterDNS(pod) && len(cluster.Servers) > 0:
		r.servers = slices.Clone(cluster.Servers)
		r.searches = append(clusterSearches(pod.Namespace, cluster.Domain), host.searches...)
		r.options = []string{"ndots:5"}
	default:
		r = resolver{slices.Clone(host.servers), slices.Clone(host.searches), slices.Clone(host.options)}
	}
	if d := pod.Spec.DNSConfig; d != nil {
		r.servers = append(r.servers, d.Nameservers...)
		r.searches = append(r.searches, d.Searches...)
		r.options = mergeOptions(r.options, optionWords(d.Options))
	}
	r.servers, r.searches = unique(r.servers), unique(r.searches)
	dropped = r.cut()
	return &api.DNSConfig{Servers: r.servers, Searches: r.searches, Options: r.options}, dropped
}

// wantsClusterDNS reports whether the pod uses the cluster's DNS. Pods on the node's network use
// the node's DNS, unless their policy is ClusterFirstWithHostNet. An empty policy is ClusterFirst,
// as in API defaulting.
func wantsClusterDNS(pod *v1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case v1.DNSClusterFirstWithHostNet:
		return true
	case v1.DNSClusterFirst, "":
		return !pod.Spec.HostNetwork
	default:
		return false
	}
}

func clusterSearches(namespace, domain string) []string {
	if domain == "" {
		return nil
	}
	return []string{namespace + ".svc." + domain, "svc." + domain, domain}
}

func optionWords(options []v1.PodDNSConfigOption) []string {
	var out []string
	for _, o := range options {
		word := o.Name
		if o.Value != nil && *o.Value != "" {
			word += ":" + *o.Value
		}
		out = append(out, word)
	}
	return out
}

// mergeOptions appends more to have. A later option replaces an earlier option of the same name.
func mergeOptions(have, more []string) []string {
	for _, o := range more {
		name, _, _ := strings.Cut(o, ":")
		i := slices.IndexFunc(have, func(h string) bool { n, _, _ := strings.Cut(h, ":"); return n == name })
		if i >= 0 {
			have[i] = o
		} else {
			have = append(have, o)
		}
	}
	return have
}

// unique keeps the first of equals.
func unique(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// cut applies the limits and returns the dropped names.
func (r *resolver) cut() (dropped []string) {
	if len(r.servers) > maxServers {
		dropped = append(dropped, r.servers[maxServers:]...)
		r.servers = r.servers[:maxServers]
	}
	var kept []string
	length := 0
	for i, s := range r.searches {
		if len(s) > maxSearchName {
			dropped = append(dropped, s)
			continue
		}
		if len(kept) == maxSearches || length+len(s) > maxSearchLength {
			dropped = append(dropped, r.searches[i:]...)
			break
		}
		kept = append(kept, s)
		length += len(s) + 1
	}
	r.searches = kept
	return dropped
}
