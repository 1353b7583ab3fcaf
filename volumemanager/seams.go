// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods says where pods are in their lives; *podworkers.Workers does. Both methods
// answer at once and from memory, are safe for concurrent use, and are called
// without a lock held. In doubt they say false: then nothing is unmounted, and
// what is asked for is mounted.
//
// When an answer changes to true, the manager must be told with
// Manager.PodChanged or Manager.WaitForUnmount; else it finds out at the next
// resync.
type Pods interface {
	// ShouldPodRuntimeBeRemoved reports whether the pod is positively known to have
	// no container that runs, or could be started: what it used may be unmounted.
	ShouldPodRuntimeBeRemoved(uid types.UID) bool
	// ShouldPodContainersBeTerminating reports whether no container of the pod will
	// be started any more: nothing needs to be mounted for it.
	ShouldPodContainersBeTerminating(uid types.UID) bool
}

// Claims finds the persistent volume behind a pod's persistentVolumeClaim or
// generic ephemeral volume.
type Claims interface {
	// Resolve returns the Spec with PV, ReadOnly, GID, Size and Claimed. It is
	// called on each WaitForAttachAndMount of the pod, possibly for many pods at
	// once, and may ask the API server. It checks what belongs to the claim: that
	// it is bound to this very PV and not being deleted, that an ephemeral one is
	// owned by the pod, that the PV may be used on this node.
	//
	// An error fails the wait at once, except for a volume that the pod has
	// already: that is used on as it is recorded.
	Resolve(ctx context.Context, pod *v1.Pod, volume v1.Volume) (Spec, error)
}

// ClaimsFunc is a func as Claims.
type ClaimsFunc func(ctx context.Context, pod *v1.Pod, volume v1.Volume) (Spec, error)

// Resolve calls f.
func (f ClaimsFunc) Resolve(ctx context.Context, pod *v1.Pod, volume v1.Volume) (Spec, error) {
	return f(ctx, pod, volume)
}

// Node is what the API server knows of this node. It is needed where something
// else attaches volumes to it.
type Node interface {
	// AttachedVolumes returns node.status.volumesAttached: device paths by unique
	// volume name. It is called before an attachable volume is mounted, again
	// after a back-off or Manager.NodeChanged while it is not in the result.
	AttachedVolumes(ctx context.Context) (map[v1.UniqueVolumeName]string, error)
}

// NodeFunc is a func as Node.
type NodeFunc func(ctx context.Context) (map[v1.UniqueVolumeName]string, error)

// AttachedVolumes calls f.
func (f NodeFunc) AttachedVolumes(ctx context.Context) (map[v1.UniqueVolumeName]string, error) {
	return f(ctx)
}

// Subpaths undoes what somebody else made of a volume for single containers.
type Subpaths interface {
	// CleanSubpaths unmounts and removes what is in p.SubpathsDir(). It is called
	// before TearDown, and idempotent.
	CleanSubpaths(ctx context.Context, p Place) error
}

// MountTable tells what is mounted.
type MountTable interface {
	// MountPoints returns the absolute paths at which something is mounted, as
	// /proc/self/mountinfo has them. It looks at no mount itself, so that it
	// cannot hang.
	MountPoints() ([]string, error)
}

// MountTableFunc is a func as MountTable.
type MountTableFunc func() ([]string, error)

// MountPoints calls f.
func (f MountTableFunc) MountPoints() ([]string, error) { return f() }

// Hooks tell of what happens, for metrics and events. A nil func is not called.
// They are called without a lock held, possibly many at once, and must not block.
type Hooks struct {
	// OperationEnded is told of every operation after its outcome was noted.
	OperationEnded func(OperationEnd)
	// InUseChanged: GetVolumesInUse has changed; the node's status should be sent.
	InUseChanged func()
}
