// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodRef names a pod on the API server. A static pod has the UID of its mirror pod.
type PodRef struct {
	Namespace, Name string
	UID             types.UID
}

// String is namespace/name and the UID in parentheses.
func (r PodRef) String() string { return fmt.Sprintf("%s/%s(%s)", r.Namespace, r.Name, r.UID) }

// Patcher writes to the API server. Methods are called concurrently for different pods, but never
// concurrently for one pod, and never with a lock held. Methods must return when ctx ends.
//
// An error that is an APIStatus of apimachinery is the server's answer and is classified by its
// code. 404 means that the pod is gone. 409, or 422 for metadata.uid, means another pod or a
// concurrent change. 429, and any error with a delay, means a busy server. Another 4xx means that
// the server refuses the status. After any other error, and after 5xx, the request may or may not
// have been carried out. An implementation must neither retry nor wait, because waiting would delay
// other pods.
type Patcher interface {
	// PatchStatus applies a strategic merge patch to the status subresource of a pod and returns
	// the patched pod. Neither side writes to the returned pod from then on. The patch contains
	// metadata.uid, so the server refuses the patch for another pod, as invalid.
	PatchStatus(ctx context.Context, pod PodRef, patch []byte) (*v1.Pod, error)
	// DeletePod deletes a pod at once (grace period 0), on condition that the pod has the UID of
	// the PodRef.
	DeletePod(ctx context.Context, pod PodRef) error
}

// Getter may also be implemented by a Patcher. GetPod is called for unknown pods: on the first
// write of a pod that was neither observed nor found in Pods, and after a conflict. Without a
// Getter, the first write sends the whole status and overwrites unknown changes, such as an end of
// the pod set by another writer.
type Getter interface {
	// GetPod returns the pod with the given namespace and name, whatever its UID.
	GetPod(ctx context.Context, pod PodRef) (*v1.Pod, error)
}

// Pods is a cache of the API server's pods, usually fed by a watch. Methods are called
// concurrently, without a lock held, and must return at once. Neither side may write to the
// returned pods.
type Pods interface {
	// Pod returns the newest known object with the given UID.
	Pod(uid types.UID) (*v1.Pod, bool)
	// Mirror returns the mirror pod of a static pod, with the content of the static pod: see
	// podconfig/mirror.IsMirrorOf.
	Mirror(static types.UID) (*v1.Pod, bool)
	// Static returns the UID of the static pod of a mirror pod.
	Static(mirror types.UID) (types.UID, bool)
}

// Safety reports when a pod may be reported as ended.
type Safety interface {
	// MayHaveRunningContainers reports whether a container of the pod may run; true if in doubt.
	// The Manager notices a change to false at the next call for the pod, usually TerminatePod, or
	// at the next resync. MayHaveRunningContainers is called concurrently, without a lock held, and
	// must return at once.
	MayHaveRunningContainers(uid types.UID) bool
}

// SafetyFunc adapts a func to Safety.
type SafetyFunc func(types.UID) bool

// MayHaveRunningContainers calls f.
func (f SafetyFunc) MayHaveRunningContainers(uid types.UID) bool { return f(uid) }
