// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// First lines of generated hosts files, with the kubelet's words.
const (
	hostsHead        = "# Kubernetes-managed hosts file.\n"
	hostsHeadNetwork = "# Kubernetes-managed hosts file (host network).\n"
)

// hostsPath is where containers have their hosts file.
const hostsPath = "/etc/hosts"

// podHosts is the hosts file of a pod with its own network: the local names, the pod's name at each
// of the pod's addresses, and the hostAliases.
func podHosts(pod *v1.Pod, hostname, clusterDomain string, ips []string) string {
	var b strings.Builder
	b.WriteString(hostsHead)
	b.WriteString("127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n")
	for _, ip := range ips {
		b.WriteString(ip + "\t")
		if domain := podDomain(pod, clusterDomain); domain != "" && !strings.Contains(hostname, ".") {
			b.WriteString(hostname + "." + domain + "\t")
		}
		b.WriteString(hostname + "\n")
	}
	writeAliases(&b, pod.Spec.HostAliases)
	return b.String()
}

// hostNetworkHosts is the hosts file of a pod on the node's network: the node's
// and the pod's hostAliases.
func hostNetworkHosts(pod *v1.Pod, node string) string {
	var b strings.Builder
	b.WriteString(hostsHeadNetwork)
	b.WriteString(node)
	if node != "" && !strings.HasSuffix(node, "\n") {
		b.WriteString("\n")
	}
	writeAliases(&b, pod.Spec.HostAliases)
	return b.String()
}

// podDomain returns the domain of a pod with a subdomain; "" for other pods. As in the kubelet
// (1.36), hostnameOverride is the whole name, without the domain of a subdomain.
func podDomain(pod *v1.Pod, clusterDomain string) string {
	if o := pod.Spec.HostnameOverride; o != nil && *o != "" {
		return ""
	}
	if pod.Spec.Subdomain == "" || clusterDomain == "" {
		return ""
	}
	return pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + clusterDomain
}

func writeAliases(b *strings.Builder, aliases []v1.HostAlias) {
	if len(aliases) == 0 {
		return
	}
	b.WriteString("\n# Entries added by HostAliases.\n")
	for _, a := range aliases {
		b.WriteString(oneLine(a.IP) + "\t" + oneLine(strings.Join(a.Hostnames, "\t")) + "\n")
	}
}

// oneLine prevents text of a manifest from adding lines.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, s)
}
