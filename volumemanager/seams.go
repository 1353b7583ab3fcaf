// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods reports the lifecycle of pods; *podworkers.Workers implements it. Both methods answer from
// memory without blocking, are safe for concurrent use, and are called without a lock held. In
// doubt they return false: then volumes stay mounted, and requested volumes are mounted.
//
// When an answer changes to true, call Manager.PodChanged or Manager.WaitForUnmount. Without the
// call, the manager notices the change at the next resync.
type Pods interface {
	// ShouldPodRuntimeBeRemoved reports whether no container of the pod runs or can be started. If
	// true, the volumes of the pod may be unmounted.
	ShouldPodRuntimeBeRemoved(uid types.UID) bool
	// ShouldPodContainersBeTerminating reports whether no further container of the pod will be
	// started. If true, no volume is mounted for the pod.
	ShouldPodContainersBeTerminating(uid types.UID) bool
}

// Claims finds the persistent volume behind a pod's persistentVolumeClaim or generic ephemeral
// volume.
type Claims interface {
	// Resolve returns the Spec with PV, ReadOnly, GID, Size and Claimed. It is called in each
	// WaitForAttachAndMount of the pod, possibly for many pods at once, and may ask the API server.
	// Resolve checks the claim: the claim is bound to this PV and not being deleted, an ephemeral
	// claim is owned by the pod, and the PV may be used on this node.
	//
	// An error fails the wait at once. Exception: a volume that the pod already has is used as
	// recorded.
	Resolve(ctx context.Context, pod *v1.Pod, volume v1.Volume) (Spec, error)
}

// ClaimsFunc is a func that implements Claims.
type ClaimsFunc func(ctx context.Context, pod *v1.Pod, volume v1.Volume) (Spec, error)

// Resolve calls f.
func (f ClaimsFunc) Resolve(ctx context.Context, pod *v1.Pod, volume v1.Volume) (Spec, error) {
	return f(ctx, pod, volume)
}

// Node reads the API server's status of this node. Required if an external attacher attaches
// volumes to the node.
type Node interface {
	// AttachedVolumes returns node.status.volumesAttached: device paths by unique volume name. It
	// is called before an attachable volume is mounted. While the volume is missing from the
	// result, the call is repeated after a back-off or Manager.NodeChanged.
	AttachedVolumes(ctx context.Context) (map[v1.UniqueVolumeName]string, error)
}

// Subpaths removes the bind mounts of subPaths that were made for containers.
type Subpaths interface {
	// CleanSubpaths unmounts and removes the content of p.SubpathsDir(). It is idempotent and is
	// called before TearDown.
	CleanSubpaths(ctx context.Context, p Place) error
}

// SubpathPreparer is an optional ability of Subpaths: MountOf uses it to make a subPath of a volume
// mountable.
type SubpathPreparer interface {
	// PrepareSubpath returns the host path for the container runtime to mount: the relative,
	// slash-separated path subPath below volume, the host path of the volume. The names container
	// and index (of the volumeMount) select the subPath's own folder in p.SubpathsDir().
	// Idempotent. Errors name the subPath.
	PrepareSubpath(ctx context.Context, p Place, volume, subPath, container string, index int) (path string, err error)
}

// MountTable lists the mount points of the node.
type MountTable interface {
	// MountPoints returns the absolute paths of all mount points, as in /proc/self/mountinfo.
	// MountPoints must not access a mount, because the access may hang.
	MountPoints() ([]string, error)
}

// MountTableFunc is a func that implements MountTable.
type MountTableFunc func() ([]string, error)

// MountPoints calls f.
func (f MountTableFunc) MountPoints() ([]string, error) { return f() }

// Hooks report operations and changes, for metrics and events. A nil func is not called. Hooks are
// called without a lock held, possibly concurrently, and must not block.
type Hooks struct {
	// OperationEnded is called for every operation after the Manager has recorded its outcome.
	OperationEnded func(OperationEnd)
	// InUseChanged is called when GetVolumesInUse has changed, so that the caller sends the node's
	// status.
	InUseChanged func()
}
