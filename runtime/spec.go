// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SandboxSpec describes a sandbox for a backend.
type SandboxSpec struct {
	UID             types.UID
	Namespace, Name string
	Attempt         uint32 // 0 for the pod's first sandbox
	Hostname        string // empty: the node's host name
	HostNetwork     bool
	LogDirectory    string // absolute; named by the Generator, made by the backend
	Labels          map[string]string
	Annotations     map[string]string

	// Pod is the pod of the sandbox. A backend reads fields from Pod that have no field above. Pod
	// is never written.
	Pod *v1.Pod
}

// ContainerSpec describes a container for a backend. All references are resolved.
type ContainerSpec struct {
	Name         string
	Group        Group
	RestartCount int32
	Hash         string
	Image        string
	ImageID      string // from Images; empty if the backend does not implement Images

	Command, Args []string // $(VAR) expanded
	Env           []EnvVar // in order, no duplicates
	WorkingDir    string
	Mounts        []Mount
	LogPath       string // absolute; empty: no log

	// Devices are device nodes of the host that the container may use. If a backend cannot grant a
	// device, the backend refuses the container with an UnsupportedError.
	Devices []Device
	// CDIDevices are fully qualified device names such as "vendor.com/gpu=0". The runtime resolves
	// the names by the node's CDI files (Container Device Interface 0.5 or newer). A backend
	// without CDI refuses the container with an UnsupportedError.
	CDIDevices []string

	// SupplementalGroups are the groups required by the pod's volumes, in addition to the groups of
	// the pod's securityContext. A backend without support for groups refuses the container.
	SupplementalGroups []int64

	Labels      map[string]string
	Annotations map[string]string

	// Pod and Container are the source of the spec. A backend reads fields from Pod and Container
	// that have no field above. Both are never written.
	Pod       *v1.Pod
	Container *v1.Container
}

// EnvVar is a resolved environment variable. A value may be a secret, and must not appear in a log,
// event or error.
type EnvVar struct{ Name, Value string }

// Mount shows a path of the host, or the content of an image, inside a container.
type Mount struct {
	Name          string // the volume's name
	HostPath      string // absolute, exists; empty for an image
	ContainerPath string // absolute, in the container
	ReadOnly      bool

	// Image is a normalized reference to an image on the node. The mount is read-only (KEP-4639). A
	// backend without support for image mounts refuses the container. Empty: HostPath is mounted.
	Image string
	// ImageSubPath is the mounted directory of the image, relative and without "..". Empty: the
	// whole image.
	ImageSubPath string
	// SELinuxRelabel asks the backend to label the files at HostPath with the container's label.
	// The caller has checked that the volume needs the label and does not have the label yet.
	// Without SELinux the field has no effect.
	SELinuxRelabel bool
}

// Device is a device node of the host that a container may use.
type Device struct {
	HostPath      string // absolute; a symbolic link is followed
	ContainerPath string // absolute, in the container
	Permissions   string // of "r" (read), "w" (write) and "m" (mknod), each at most once
}

// Group is a list of containers in the pod spec.
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

// Ref is the position of a container in the pod spec.
type Ref struct {
	Group Group
	Index int
}

// Container returns the container of pod at position r, or nil if r is out of range. For an
// ephemeral container the result is the common part. The result points into pod.
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

// Find returns the position of the named container in pod. Names are unique in a valid pod.
func Find(pod *v1.Pod, name string) (Ref, bool) {
	for ref, c := range Containers(pod) {
		if c.Name == name {
			return ref, true
		}
	}
	return Ref{}, false
}

// Containers yields the init, the regular and the ephemeral containers of a pod with their positions.
func Containers(pod *v1.Pod) iter.Seq2[Ref, *v1.Container] {
	return func(yield func(Ref, *v1.Container) bool) {
		for _, group := range []Group{GroupInit, GroupRegular, GroupEphemeral} {
			for i := 0; ; i++ {
				ref := Ref{Group: group, Index: i}
				c := ref.Container(pod)
				if c == nil {
					break
				}
				if !yield(ref, c) {
					return
				}
			}
		}
	}
}
