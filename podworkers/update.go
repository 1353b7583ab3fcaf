// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrInvalidUpdate is wrapped by the error of an update that cannot be meant: nothing to act on, an unknown type, or
// parts that contradict each other. Nothing was recorded.
var ErrInvalidUpdate = errors.New("invalid pod update")

// UpdateType says why an update is sent. The order matters: of several updates that a pod has not seen yet, the
// highest type is the one its syncer is told.
type UpdateType uint8

const (
	// UpdateSync asks for a sync although the configuration is unchanged: a probe result, a runtime event, a retry.
	UpdateSync UpdateType = iota
	// UpdateUpdate says that the pod's configuration changed.
	UpdateUpdate
	// UpdateCreate says that the pod entered the configuration. On a UID that is being terminated it asks for a
	// restart, see WorkerInfo.RestartRequested.
	UpdateCreate
	// UpdateKill ends the pod. It cannot be taken back.
	UpdateKill
)

// String returns the kubelet's word for the type: sync, update, create or kill.
func (t UpdateType) String() string {
	switch t {
	case UpdateSync:
		return "sync"
	case UpdateUpdate:
		return "update"
	case UpdateCreate:
		return "create"
	case UpdateKill:
		return "kill"
	}
	return fmt.Sprintf("UpdateType(%d)", uint8(t))
}

// Update is one thing to be told to a pod's worker: either a Pod, or an Orphan of which no Pod is known.
type Update struct {
	// Type says why.
	Type UpdateType
	// Pod is the newest configuration; it must carry a UID. It is required unless Orphan is set. It is kept, not
	// copied: neither the caller nor a syncer may write to it afterwards.
	Pod *v1.Pod
	// MirrorPod is the API server's copy of a static pod, kept like Pod. In an UpdateCreate or UpdateUpdate nil
	// means that there is none; in an UpdateSync or UpdateKill it means "as before".
	MirrorPod *v1.Pod
	// Orphan is a pod that only the container runtime knows. The type must be UpdateKill and Pod nil.
	Orphan *Orphan
	// Kill refines an UpdateKill; with any other type it must be nil. It is read once and not kept.
	Kill *KillOptions
	// Received is when the reason for the update became known, for measuring latency (SyncEvent.Received). Of
	// updates that are folded together the oldest is kept. Zero means the time of the UpdatePod call.
	Received time.Time
}

// Orphan names a pod that was found in the container runtime and nowhere else.
type Orphan struct {
	// UID is the pod's; it must not be empty.
	UID types.UID
	// Namespace and Name are the pod's, as the runtime remembers them; they may be empty.
	Namespace, Name string
}

// KillOptions refine a kill. Their facts go into the pod's record, so that no later update can displace them.
type KillOptions struct {
	// Evict marks the pod as evicted, whenever it arrives; see WorkerInfo.Evicted.
	Evict bool
	// GracePeriodSeconds overrides the pod's grace period in seconds; values below 1 count as 1. The grace period
	// of a pod only ever shrinks. Nil leaves the choice to the pod, or for an Orphan to the default of 1.
	GracePeriodSeconds *int64
	// Status edits the status with which the pod ends. Each one registered runs, in order, whenever the syncer
	// calls TerminatingRequest.ApplyStatus; it may therefore run more than once. One that arrives after the pod's
	// containers have ended never runs. Nil adds nothing.
	Status func(*v1.PodStatus)
}

// uid returns whom a valid update is about.
func (u *Update) uid() types.UID {
	if u.Orphan != nil {
		return u.Orphan.UID
	}
	return u.Pod.UID
}

// validate reports what is wrong with u, wrapping ErrInvalidUpdate; orphans says whether the syncer can end them.
func (u *Update) validate(orphans orphanSupport) error {
	switch {
	case u.Type > UpdateKill:
		return fmt.Errorf("%w: unknown type %d", ErrInvalidUpdate, uint8(u.Type))
	case u.Pod == nil && u.Orphan == nil:
		return fmt.Errorf("%w: neither Pod nor Orphan is set", ErrInvalidUpdate)
	case u.Pod != nil && u.Orphan != nil:
		return fmt.Errorf("%w: Pod %s/%s and Orphan are both set", ErrInvalidUpdate, u.Pod.Namespace, u.Pod.Name)
	case u.uid() == "":
		return fmt.Errorf("%w: the pod has no UID", ErrInvalidUpdate)
	case u.Kill != nil && u.Type != UpdateKill:
		return fmt.Errorf("%w: Kill is set, but the type of pod %s is %s", ErrInvalidUpdate, u.uid(), u.Type)
	case u.Orphan != nil && u.Type != UpdateKill:
		return fmt.Errorf("%w: orphan %s can only be killed, not %s", ErrInvalidUpdate, u.uid(), u.Type)
	case u.Orphan != nil && orphans == orphansUnsupported:
		return fmt.Errorf("%w: orphan %s, and the syncer is no OrphanSyncer", ErrInvalidUpdate, u.uid())
	}
	return nil
}

// orphanSupport says whether the syncer implements OrphanSyncer.
type orphanSupport uint8

const (
	orphansUnsupported orphanSupport = iota
	orphansSupported
)

// gracePeriod returns the explicit override of a kill, or nil.
func (u *Update) gracePeriod() *int64 {
	if u.Kill == nil {
		return nil
	}
	return u.Kill.GracePeriodSeconds
}

// isTerminal reports whether the API says that the pod has run its course.
func isTerminal(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
