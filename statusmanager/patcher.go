// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodRef names a pod as the API server knows it: a static pod goes by the UID of its mirror pod.
type PodRef struct {
	Namespace, Name string
	UID             types.UID
}

// String is namespace/name and the UID in parentheses.
func (r PodRef) String() string { return fmt.Sprintf("%s/%s(%s)", r.Namespace, r.Name, r.UID) }

// Patcher writes to the API server. Its methods are called concurrently for different pods, never for one, and never with
// a lock held. They return when ctx ends.
//
// An error that is an APIStatus of apimachinery is the server's answer and is judged by its code: 404 means that the pod
// is gone, 409, or 422 for metadata.uid, that it is another one or was just changed, 429 and whatever tells a delay that the server is busy, another
// 4xx that it will not take this status. Every other error, and 5xx, means that nobody knows whether the request was
// carried out. An implementation must neither retry nor wait by itself, for it would hold up other pods.
type Patcher interface {
	// PatchStatus applies a strategic merge patch to the status subresource of a pod and returns the pod as it is then,
	// which the Patcher no longer writes to. The patch has metadata.uid, so a server refuses it for another pod, as invalid.
	PatchStatus(ctx context.Context, pod PodRef, patch []byte) (*v1.Pod, error)
	// DeletePod deletes a pod at once (grace period 0), on condition that it has that UID.
	DeletePod(ctx context.Context, pod PodRef) error
}

// Getter may also be implemented by a Patcher. It is asked for a pod of which nothing is known: on the first write of a pod
// that was neither Observed nor known to Pods, and after a conflict. Without it the first write sends the whole status, and
// takes back what it cannot know of, such as an end that somebody else has brought about.
type Getter interface {
	// GetPod returns the pod of that name, whatever its UID.
	GetPod(ctx context.Context, pod PodRef) (*v1.Pod, error)
}

// Pods is what is known of the API server's pods, usually by a watch. It is called concurrently, without a lock held, and
// must answer at once. The pods it returns are not written to, by either side.
type Pods interface {
	// Pod returns the newest known object with that UID.
	Pod(uid types.UID) (*v1.Pod, bool)
	// Mirror returns the mirror pod of a static pod.
	Mirror(static types.UID) (*v1.Pod, bool)
	// Static returns the UID of the static pod that a mirror pod stands for.
	Static(mirror types.UID) (types.UID, bool)
}

// Safety tells when it is safe to say that a pod has ended.
type Safety interface {
	// MayHaveRunningContainers reports whether a container of the pod may run; true if in doubt. When it becomes false,
	// that is noticed by the next call for the pod, usually TerminatePod, or the next resync. It is called concurrently,
	// without a lock held, and must answer at once.
	MayHaveRunningContainers(uid types.UID) bool
}

// SafetyFunc is a Safety of one function.
type SafetyFunc func(types.UID) bool

// MayHaveRunningContainers calls f.
func (f SafetyFunc) MayHaveRunningContainers(uid types.UID) bool { return f(uid) }
