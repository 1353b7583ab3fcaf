// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Template is the wanted content of a certificate.
type Template struct {
	CommonName   string
	Organization string
	DNSNames     []string // sorted
	IPs          []string // sorted
}

// ClientTemplate returns the content of a node's client certificate.
func ClientTemplate(node string) Template {
	return Template{CommonName: "system:node:" + node, Organization: "system:nodes"}
}

// ServingTemplate returns the content of a node's serving certificate. ok is false if the node has no
// IP address, because no signer issues a certificate without an address. A host name in the form of an
// IP address counts as an address.
func ServingTemplate(node string, addresses []v1.NodeAddress) (t Template, ok bool) {
	t = ClientTemplate(node)
	for _, a := range addresses {
		switch ip := net.ParseIP(a.Address); {
		case a.Address == "":
		case ip != nil:
			t.IPs = append(t.IPs, ip.String())
		case a.Type == v1.NodeHostName || a.Type == v1.NodeInternalDNS || a.Type == v1.NodeExternalDNS:
			t.DNSNames = append(t.DNSNames, a.Address)
		}
	}
	slices.Sort(t.IPs)
	slices.Sort(t.DNSNames)
	t.IPs, t.DNSNames = slices.Compact(t.IPs), slices.Compact(t.DNSNames)
	return t, len(t.IPs) > 0
}

// equal reports whether two templates describe the same certificate.
func (t Template) equal(other Template) bool {
	return t.CommonName == other.CommonName && t.Organization == other.Organization &&
		slices.Equal(t.DNSNames, other.DNSNames) && slices.Equal(t.IPs, other.IPs)
}

// Missing returns the first wanted value that a certificate lacks, or "". Additional names and
// addresses are accepted.
func (t Template) Missing(leaf *x509.Certificate) string {
	if leaf.Subject.CommonName != t.CommonName {
		return fmt.Sprintf("common name %q", t.CommonName)
	}
	if !slices.Contains(leaf.Subject.Organization, t.Organization) {
		return fmt.Sprintf("organization %q", t.Organization)
	}
	for _, name := range t.DNSNames {
		if !slices.Contains(leaf.DNSNames, name) {
			return fmt.Sprintf("name %q", name)
		}
	}
	for _, ip := range t.IPs {
		if !slices.ContainsFunc(leaf.IPAddresses, net.ParseIP(ip).Equal) {
			return fmt.Sprintf("address %q", ip)
		}
	}
	return ""
}
