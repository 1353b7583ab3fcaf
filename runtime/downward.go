// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podaddress"
	"github.com/keelson-dev/keelson/internal/podfield"
	"github.com/keelson-dev/keelson/internal/resourcefield"
)

// fieldRef returns the value of a pod's field for an environment variable, as in the kubelet. The
// value of a missing label or annotation is "".
func (s *envSources) fieldRef(ref *v1.ObjectFieldSelector) (string, error) {
	if value, ok, err := podfield.Value(s.pod, ref); ok || err != nil {
		return value, err
	}
	switch ref.FieldPath {
	case "metadata.labels", "metadata.annotations":
		return "", fmt.Errorf("%s as a whole is for volumes only; name one key: %[1]s['key']", ref.FieldPath)
	case "spec.host":
		return s.pod.Spec.NodeName, nil
	case "status.hostIP", "status.hostIPs":
		if len(s.hostIPs) == 0 {
			return "", fmt.Errorf("%s: the addresses of this node are not known", ref.FieldPath)
		}
		return oneOrAll(ref.FieldPath, s.hostIPs), nil
	case "status.podIP", "status.podIPs":
		ips := s.podIPs
		if len(ips) == 0 && s.pod.Spec.HostNetwork {
			ips = s.hostIPs
		}
		return oneOrAll(ref.FieldPath, orderPodIPs(ips, s.hostIPs)), nil
	}
	return "", podfield.Unsupported(ref)
}

// oneOrAll returns all addresses, separated by commas, for a plural field, and the first address
// for a singular field.
func oneOrAll(path string, ips []string) string {
	if strings.HasSuffix(path, "s") {
		return strings.Join(ips, ",")
	}
	if len(ips) == 0 {
		return ""
	}
	return ips[0]
}

// orderPodIPs returns a pod's addresses in the order of its status and in canonical form.
func orderPodIPs(podIPs, hostIPs []string) (ordered []string) {
	for _, ip := range podaddress.OnePerFamily(podaddress.Parse(podIPs), podaddress.Parse(hostIPs)) {
		ordered = append(ordered, ip.String())
	}
	return ordered
}

// resourceFieldRef returns an amount of the resources of this container, or of the container named
// by ref; see resourcefield.Value.
func (s *envSources) resourceFieldRef(ref *v1.ResourceFieldSelector) (string, error) {
	container := s.container
	if ref.ContainerName != "" {
		at, ok := Find(s.pod, ref.ContainerName)
		if !ok {
			return "", fmt.Errorf("the pod has no container %q", ref.ContainerName)
		}
		container = at.Container(s.pod)
	}
	return resourcefield.Value(s.pod, container, ref, s.allocatable)
}
