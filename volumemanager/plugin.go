// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// Plugin implements a kind of volumes. A Plugin keeps its state on disk, so that a new value over
// the same root continues the work of a killed agent.
//
// Concurrency: calls for different Places run at the same time, also for two pods of a shared
// volume. For the same Place, SetUp and TearDown never overlap. They never overlap the
// DeviceMounter calls for their volume either.
//
// ctx ends at the manager's deadline, when Run ends, and, for a SetUp, when the pod is gone. A call
// that cannot be interrupted (a hung file server) blocks its own volume only. Manager.Snapshot
// shows the call, and Run waits for it.
//
// Errors are classified by Transient, Final, Terminal and Uncertain, through any wrapping. An error
// without a class counts as Uncertain. Error texts name the volume's objects and keys, never
// content.
type Plugin interface {
	// Name is the plugin's qualified name ("kubernetes.io/empty-dir"). The name is constant and has
	// no "~".
	Name() string
	// Supports reports whether the plugin handles spec. Supports reads spec only. For each spec, at
	// most one plugin of a manager may return true.
	Supports(spec Spec) bool
	// SetUp makes the volume usable and returns its path for containers. If the plugin needs
	// m.Dir(), SetUp creates it with its parents (0750). In the pod's folder, SetUp writes to
	// m.Dir() and m.StateDir() only.
	//
	// SetUp is idempotent. It is called again after an error, after a crash at any point of an
	// earlier call, after a restart of the agent for volumes in use by containers
	// (m.Reconstructed), and to renew the content of volumes in use (m.Remount). With either flag,
	// an error must leave the volume unchanged: same mount, same inode, same last good content.
	SetUp(ctx context.Context, m Mount) (Mounted, error)
	// TearDown undoes SetUp, also a SetUp that failed, was interrupted or never ran, and removes
	// u.Dir(). TearDown is idempotent. Data behind a mount or outside of the pod's folder belongs
	// to the user and must stay. TearDown is called only when no container of the pod can run.
	TearDown(ctx context.Context, u Unmount) error
}

// Mount is a volume to set up for a pod. The plugin must not write to the objects behind the
// pointers.
type Mount struct {
	Place
	Spec Spec
	Pod  *v1.Pod
	// Outer are the pod's names for the volume, sorted; several if several volumes of the pod use
	// the same claim.
	Outer []string
	// DevicePath is the result of Attacher.WaitForAttach. DeviceDir is the folder in which the
	// DeviceMounter has staged the volume. Else "".
	DevicePath, DeviceDir string
	// FSUser is the user that all containers of the pod run as; nil if they differ or none is set.
	// FSGroup is the group that must be able to read the files, and to write them unless read-only;
	// nil if none is set. ChangePolicy tells when to walk the tree for FSGroup.
	FSUser, FSGroup *int64
	ChangePolicy    *v1.PodFSGroupChangePolicy
	// Remount: the volume is in use; SetUp renews its content.
	Remount bool
	// Reconstructed: the volume was found after a restart of the agent and may be in use.
	Reconstructed bool
}

// Mounted describes a volume that is ready for containers.
type Mounted struct {
	// Path is the folder or file on the node; for a block volume, the device. Absolute. "" if the
	// container runtime finds the volume by itself (images).
	Path string `json:"path,omitempty"`
	// ReadOnly: containers can mount the volume read-only only.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Managed: the files belong to the agent, which may change owners and labels.
	Managed bool `json:"managed,omitempty"`
	// SELinuxRelabel: the container runtime must relabel the files.
	SELinuxRelabel bool `json:"selinuxRelabel,omitempty"`
}

// Unmount is a volume to tear down for a pod.
type Unmount struct {
	Place
	// Spec is the Spec passed to SetUp, from the mount record after a restart. For a volume without
	// a record, Spec is the result of Reconstructor, or zero.
	Spec Spec
	// Path is the path returned by SetUp. "" if SetUp failed, or if the agent was killed before
	// recording the path.
	Path string
	// DeviceDir is as in Mount.
	DeviceDir string
}
