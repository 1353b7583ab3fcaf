// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrInvalidUpdate is wrapped by the error of an invalid update: no pod, an unknown type, or
// contradicting parts. Nothing was recorded.
var ErrInvalidUpdate = errors.New("invalid pod update")

// UpdateType says why an update is sent. The order matters: if several updates are merged into one
// call, the syncer receives the highest type.
type UpdateType uint8

const (
	// UpdateSync asks for a sync although the configuration is unchanged: a probe result, a runtime
	// event, a retry.
	UpdateSync UpdateType = iota
	// UpdateUpdate says that the pod's configuration changed.
	UpdateUpdate
	// UpdateCreate says that the pod entered the configuration. For a UID that is being terminated,
	// UpdateCreate requests a restart, see WorkerInfo.RestartRequested.
	UpdateCreate
	// UpdateKill ends the pod. A kill cannot be undone.
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

// Update is one event for a pod's worker, about either a Pod or an Orphan.
type Update struct {
	// Type says why.
	Type UpdateType
	// Pod is the newest configuration and must have a UID. Pod is required unless Orphan is set.
	// The worker keeps the pointer: neither the caller nor a syncer may write to the pod
	// afterwards.
	Pod *v1.Pod
	// MirrorPod is the API server's copy of a static pod, kept like Pod. In an UpdateCreate or
	// UpdateUpdate, nil means no mirror pod. In an UpdateSync or UpdateKill, nil means "as before".
	MirrorPod *v1.Pod
	// Orphan is a pod that only the container runtime knows. The type must be UpdateKill and Pod
	// nil.
	Orphan *Orphan
	// Kill refines an UpdateKill and must be nil for any other type. Kill is read once and not
	// kept.
	Kill *KillOptions
	// Received is when the reason for the update became known, for measuring latency
	// (SyncEvent.Received). Of merged updates the oldest time is kept. Zero means the time of the
	// UpdatePod call.
	Received time.Time
}

// Orphan names a pod that was found in the container runtime and nowhere else.
type Orphan struct {
	// UID is the pod's UID and must not be empty.
	UID types.UID
	// Namespace and Name are as reported by the runtime and may be empty.
	Namespace, Name string
}

// KillOptions refine a kill. The options are stored in the pod's record, so no later update can
// displace them.
type KillOptions struct {
	// Evict marks the pod as evicted, in any state; see WorkerInfo.Evicted.
	Evict bool
	// GracePeriodSeconds overrides the pod's grace period in seconds; values below 1 count as 1.
	// The grace period of a pod only ever shrinks. Nil leaves the choice to the pod, or for an
	// Orphan to the default of 1.
	GracePeriodSeconds *int64
	// Status edits the final status of the pod. Every registered function runs, in order, whenever
	// the syncer calls TerminatingRequest.ApplyStatus, so a function may run more than once. A
	// function registered after the pod's containers have ended never runs. Nil adds nothing.
	Status func(*v1.PodStatus)
}

// uid returns the pod UID of a valid update.
func (u *Update) uid() types.UID {
	if u.Orphan != nil {
		return u.Orphan.UID
	}
	return u.Pod.UID
}

// validate returns an error that wraps ErrInvalidUpdate if u is invalid.
func (u *Update) validate() error {
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
	}
	return nil
}

// gracePeriod returns the explicit override of a kill, or nil.
func (u *Update) gracePeriod() *int64 {
	if u.Kill == nil {
		return nil
	}
	return u.Kill.GracePeriodSeconds
}
