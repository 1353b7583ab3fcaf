// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// Driver is the component that makes cgroups. The agent and the container runtime must use the same driver.
type Driver string

// The drivers.
const (
	Cgroupfs Driver = "cgroupfs" // folders in the cgroup file system
	Systemd  Driver = "systemd"  // slices of systemd
)

// The parts of the kubelet's names.
const (
	pods        = "kubepods"
	podPrefix   = "pod"
	sliceSuffix = ".slice"
)

// Path returns the path of a cgroup below the root of the hierarchy, in the notation of the driver,
// from the names of its parents and itself. Without parts, Path returns the root.
func Path(d Driver, parts ...string) (string, error) {
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\x00") {
			return "", fmt.Errorf("%q is no name of a cgroup", part)
		}
		if d == Systemd && strings.Contains(part, "_") {
			return "", fmt.Errorf("%q is no part of a slice's name: \"_\" stands for \"-\" there", part)
		}
	}
	switch d {
	case Cgroupfs:
		return "/" + strings.Join(parts, "/"), nil
	case Systemd:
		return slicePath(parts), nil
	}
	return "", fmt.Errorf("cgroup driver %q: want %s or %s", d, Cgroupfs, Systemd)
}

// slicePath returns the path of a slice: each slice has the names of all its parents in its own.
func slicePath(parts []string) string {
	var path, name strings.Builder
	for i, part := range parts {
		if i > 0 {
			name.WriteByte('-')
		}
		name.WriteString(strings.ReplaceAll(part, "-", "_"))
		path.WriteString("/" + name.String() + sliceSuffix)
	}
	if len(parts) == 0 {
		return "/"
	}
	return path.String()
}

// rootParts splits the field cgroupRoot of the kubelet's configuration.
func rootParts(root string) (parts []string) {
	for part := range strings.SplitSeq(root, "/") {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// className returns the name of the cgroup of a QoS class below the cgroup of all pods. Guaranteed
// pods have no cgroup of a class: the name is "".
func className(class v1.PodQOSClass) string {
	if class == v1.PodQOSGuaranteed {
		return ""
	}
	return strings.ToLower(string(class))
}

// podParts returns the parts of a pod's cgroup.
func podParts(root []string, pod *v1.Pod) []string {
	parts := append(root[:len(root):len(root)], pods)
	if class := className(podresources.QOS(pod)); class != "" {
		parts = append(parts, class)
	}
	return append(parts, podPrefix+string(pod.UID))
}
