// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The longest host names: a DNS label, and the kernel's limit.
const (
	maxHostname       = 63
	maxKernelHostname = 64
)

// podHostname returns the pod's host name by the kubelet's rule: hostnameOverride, else hostname,
// else the pod's name cut to the length of a DNS label. On the host network the result is "", and
// the node's name applies.
//
// As in the kubelet, setHostnameAsFQDN has no effect without a subdomain. With a subdomain it is an
// error: the full name needs the cluster's domain, which is not known here, and a partial name
// would be wrong.
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
