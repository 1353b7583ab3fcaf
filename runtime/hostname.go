// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Longest host names: a DNS label, and what the kernel takes.
const (
	maxHostname       = 63
	maxKernelHostname = 64
)

// podHostname returns what a pod sees as its host's name, by the kubelet's
// rule: hostnameOverride, else hostname, else the pod's name cut to a DNS
// label's length. It is "" on the host network, where the node's name holds.
//
// setHostnameAsFQDN means nothing without a subdomain, as in the kubelet. With
// one it is an error: the name would need the cluster's domain, which is not
// known here, and a pod that asks for its full name must not get half of it.
func podHostname(pod *v1.Pod) (string, error) {
	spec := &pod.Spec
	if spec.HostNetwork {
		return "", nil
	}
	if o := spec.HostnameOverride; o != nil && *o != "" {
		if len(*o) > maxKernelHostname {
			return "", fmt.Errorf("spec.hostnameOverride: %q has more than %d bytes", *o, maxKernelHostname)
		}
		if bad := validation.IsDNS1123Subdomain(*o); len(bad) > 0 {
			return "", fmt.Errorf("spec.hostnameOverride: %q: %s", *o, bad[0])
		}
		return *o, nil
	}
	if spec.Subdomain != "" {
		if bad := validation.IsDNS1123Label(spec.Subdomain); len(bad) > 0 {
			return "", fmt.Errorf("spec.subdomain: %q: %s", spec.Subdomain, bad[0])
		}
		if fqdn := spec.SetHostnameAsFQDN; fqdn != nil && *fqdn {
			return "", fmt.Errorf("spec.setHostnameAsFQDN: the cluster's domain is not known: %w", ErrUnsupported)
		}
	}
	if spec.Hostname != "" {
		if bad := validation.IsDNS1123Label(spec.Hostname); len(bad) > 0 {
			return "", fmt.Errorf("spec.hostname: %q: %s", spec.Hostname, bad[0])
		}
		return spec.Hostname, nil
	}
	name := strings.TrimRight(pod.Name[:min(maxHostname, len(pod.Name))], "-.")
	if name == "" {
		return "", fmt.Errorf("metadata.name: %q makes no hostname", pod.Name)
	}
	return name, nil
}
