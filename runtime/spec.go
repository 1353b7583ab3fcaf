// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// SandboxSpec is what a backend needs to make a sandbox.
type SandboxSpec struct {
	UID             types.UID
	Namespace, Name string
	Attempt         uint32 // 0 for the pod's first sandbox
	Hostname        string // empty: the node's
	HostNetwork     bool
	LogDirectory    string // absolute; the manager's Generator names it, the backend makes it
	Labels          map[string]string
	Annotations     map[string]string

	// Pod is the pod this sandbox is for. A backend reads from it what has no
	// field of its own above. Never written.
	Pod *v1.Pod
}

// ContainerSpec is what a backend needs to make a container: everything
// resolved, nothing left to look up.
type ContainerSpec struct {
	Name         string
	Group        Group
	RestartCount int32
	Hash         string
	Image        string
	ImageID      string // what Images returned for it; empty if the backend is no Images

	Command, Args []string // $(VAR) expanded
	Env           []EnvVar // in order, no duplicates
	WorkingDir    string
	Mounts        []Mount
	LogPath       string // absolute; empty: no log

	// Devices are nodes of the host's /dev that the container may use. A backend that cannot
	// grant one refuses the container with an UnsupportedError.
	Devices []Device
	// CDIDevices are fully qualified names of devices, as in "vendor.com/gpu=0": the runtime
	// resolves them by the node's CDI files (Container Device Interface 0.5 or newer). A backend
	// that does not know CDI refuses the container with an UnsupportedError.
	CDIDevices []string

	// SupplementalGroups are what the pod's volumes ask for, beside the groups of
	// Pod's securityContext. A backend that cannot do it refuses the container.
	SupplementalGroups []int64

	Labels      map[string]string
	Annotations map[string]string

	// Pod and Container are where this came from. A backend reads from them
	// what has no field of its own above. Never written.
	Pod       *v1.Pod
	Container *v1.Container
}

// EnvVar is one resolved environment variable. Values may be secrets: they go
// into no log, event or error.
type EnvVar struct{ Name, Value string }

// Mount shows a path of the host, or an image's content, inside a container.
type Mount struct {
	Name          string // the volume's name
	HostPath      string // absolute, exists; empty for an image
	ContainerPath string // absolute, as the container sees it
	ReadOnly      bool

	// Image is a normalized reference to an image that is on the node; the mount
	// is read-only (KEP-4639). A backend that cannot do it refuses the container.
	// Empty: the mount is of HostPath.
	Image string
	// ImageSubPath is the directory of the image that is shown. Relative, without
	// "..". Empty: all of it.
	ImageSubPath string
	// SELinuxRelabel asks for the label of the container on what is at HostPath.
	// The caller has found out that the volume is to be relabelled, and has not
	// been. It means nothing where SELinux is off.
	SELinuxRelabel bool
}

// Device is a device node of the host that a container may use.
type Device struct {
	HostPath      string // absolute; a symbolic link is followed
	ContainerPath string // absolute, as the container sees it
	Permissions   string // of "r" (read), "w" (write) and "m" (mknod), each at most once
}

// Group is the list of the pod spec a container is in.
type Group uint8

// The groups.
const (
	GroupRegular Group = iota
	GroupInit          // plain init containers and sidecars
	GroupEphemeral
)

// String returns the pod spec's field name for the group.
func (g Group) String() string {
	switch g {
	case GroupInit:
		return "initContainers"
	case GroupEphemeral:
		return "ephemeralContainers"
	default:
		return "containers"
	}
}

// Ref is a container's place in its pod's spec.
type Ref struct {
	Group Group
	Index int
}

// Container returns the container of pod that r refers to; for an ephemeral
// container its common part. The result points into pod; nil if out of range.
func (r Ref) Container(pod *v1.Pod) *v1.Container {
	switch {
	case r.Index < 0:
	case r.Group == GroupRegular && r.Index < len(pod.Spec.Containers):
		return &pod.Spec.Containers[r.Index]
	case r.Group == GroupInit && r.Index < len(pod.Spec.InitContainers):
		return &pod.Spec.InitContainers[r.Index]
	case r.Group == GroupEphemeral && r.Index < len(pod.Spec.EphemeralContainers):
		return (*v1.Container)(&pod.Spec.EphemeralContainers[r.Index].EphemeralContainerCommon)
	}
	return nil
}

// Find returns the place of the named container in pod. Regular containers are
// looked at first, then init, then ephemeral; names are unique in a valid pod.
func Find(pod *v1.Pod, name string) (Ref, bool) {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return Ref{GroupRegular, i}, true
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return Ref{GroupInit, i}, true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return Ref{GroupEphemeral, i}, true
		}
	}
	return Ref{}, false
}

// IsSidecar reports whether c, an init container, is a sidecar: one that is
// restarted always and does not block what follows from starting (KEP-753).
func IsSidecar(c *v1.Container) bool { return podfacts.IsSidecar(c) }
