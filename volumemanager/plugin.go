// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// Plugin makes the volumes of one kind. It is stateless as far as the manager
// can tell: what it must remember about a volume lies on disk, so that a new
// value over the same root goes on where a killed one stopped.
//
// Concurrency: calls for different Places run at once, also for two pods of one
// shared volume. For one Place, SetUp and TearDown never overlap, and neither
// do they with the DeviceMounter calls for their volume.
//
// ctx ends at the manager's deadline, when Run ends, and, for a SetUp, when the
// pod is gone. A call that cannot be interrupted (a hung file server) holds up
// its own volume only; it is seen in Manager.Snapshot, and Run waits for it.
//
// Errors are classified by Transient, Final, Terminal and Uncertain, through
// any wrapping; one without a class counts as Uncertain. Their text names the
// volume's objects and keys, never content.
type Plugin interface {
	// Name is the plugin's qualified name ("kubernetes.io/empty-dir"). It never
	// changes and has no "~".
	Name() string
	// Supports reports whether spec is one of the plugin's. It looks at spec
	// only. Exactly one plugin of a manager may say so of any spec.
	Supports(spec Spec) bool
	// SetUp makes the volume usable and says where containers find it. It makes
	// m.Dir() with its parents (0750) if it needs it, and touches nothing else
	// of the pod's folder but that and m.StateDir().
	//
	// It is idempotent: it is called again after an error, after a crash at any
	// point of an earlier call, after a restart of the agent for volumes that
	// containers use (m.Reconstructed), and to renew the content of such volumes
	// (m.Remount). With either flag, an error must leave what is there as it is:
	// same mount, same inode, same last good content.
	SetUp(ctx context.Context, m Mount) (Mounted, error)
	// TearDown undoes SetUp, also one that failed, was cut off or never ran, and
	// removes u.Dir(). It is idempotent. What lies behind a mount or outside of
	// the pod's folder is the user's and is left alone. It is called only when
	// no container of the pod can run.
	TearDown(ctx context.Context, u Unmount) error
}

// Mount is what is to be set up for one pod. The plugin does not write to what
// it points to.
type Mount struct {
	Place
	Spec Spec
	Pod  *v1.Pod
	// Outer are the names of the pod's volumes that this is, sorted; more than
	// one if several use the same claim.
	Outer []string
	// DevicePath is what Attacher.WaitForAttach returned. DeviceDir is where the
	// DeviceMounter has mounted the volume for all pods. Else "".
	DevicePath, DeviceDir string
	// FSUser is the user all containers of the pod run as, FSGroup the group
	// that must be able to read (and write, unless read-only) the files; nil if
	// there is no such. ChangePolicy says when to walk the tree for FSGroup.
	FSUser, FSGroup *int64
	ChangePolicy    *v1.PodFSGroupChangePolicy
	// Remount: the volume is in use; its content shall be renewed.
	Remount bool
	// Reconstructed: the volume was found after a restart of the agent and may
	// be in use.
	Reconstructed bool
}

// Mounted is where containers find a volume, and how.
type Mounted struct {
	// Path is the folder or file on the node; for a block volume, the device.
	// Absolute. "" if the container runtime finds the volume by itself (images).
	Path string `json:"path,omitempty"`
	// ReadOnly: containers can mount it read-only only.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Managed: its files belong to the agent, which may change owners and labels.
	Managed bool `json:"managed,omitempty"`
	// SELinuxRelabel: the container runtime shall relabel it.
	SELinuxRelabel bool `json:"selinuxRelabel,omitempty"`
}

// Unmount is what is to be torn down for one pod.
type Unmount struct {
	Place
	// Spec is as SetUp got it, also after a restart, from the mount record. Only
	// for a volume without a record it is what Reconstructor said, or zero.
	Spec Spec
	// Path is what SetUp returned, "" if it did not, or the agent was killed
	// before that was recorded.
	Path string
	// DeviceDir is as in Mount.
	DeviceDir string
}
