// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods syncs and stops pods. The methods use no type of this package, so that other packages can
// implement Pods without importing podworkers. Over makes a PodSyncer from Pods. Concurrency,
// order, contexts and errors are as in PodSyncer.
type Pods interface {
	// Sync makes the pod run as its spec says; see PodSyncer.SyncPod. over and again are the fields
	// of Outcome. With an error, over is ignored, and again, unless zero, is the time at which the call
	// is repeated, as with RetryAfter.
	Sync(ctx context.Context, pod *v1.Pod) (over bool, again time.Time, err error)
	// Stop stops the pod's containers within grace; see PodSyncer.SyncTerminatingPod. pod is nil if
	// only the container runtime knows the pod. edit, never nil, edits the status with which the
	// pod ends.
	Stop(ctx context.Context, uid types.UID, pod *v1.Pod, grace time.Duration, edit func(*v1.PodStatus)) error
	// Release frees the pod's resources; see PodSyncer.SyncTerminatedPod.
	Release(ctx context.Context, pod *v1.Pod) error
	// Forgotten is called when the record of the UID is forgotten; see Forgetter.
	Forgotten(uid types.UID)
}

// Rester may also be implemented by Pods. Rests is called after a Sync without an error and without a
// time for the next call, and returns Outcome.Rests.
type Rester interface {
	Rests(uid types.UID) bool
}

// Over returns a PodSyncer that calls pods. The result also implements OrphanSyncer and Forgetter.
func Over(pods Pods) PodSyncer { return podsSyncer{pods} }

type podsSyncer struct{ Pods }

// SyncPod implements PodSyncer.
func (s podsSyncer) SyncPod(ctx context.Context, r SyncRequest) (Outcome, error) {
	over, again, err := s.Sync(ctx, r.Pod)
	if err != nil && !again.IsZero() {
		err = RetryAfter(err, again)
	}
	out := Outcome{Over: over, Again: again}
	if rester, ok := s.Pods.(Rester); ok && err == nil && again.IsZero() {
		out.Rests = rester.Rests(r.Pod.UID)
	}
	return out, err
}

// SyncTerminatingPod implements PodSyncer.
func (s podsSyncer) SyncTerminatingPod(ctx context.Context, r TerminatingRequest) error {
	return s.Stop(ctx, r.Pod.UID, r.Pod, time.Duration(r.GracePeriodSeconds)*time.Second, r.ApplyStatus)
}

// SyncTerminatedPod implements PodSyncer.
func (s podsSyncer) SyncTerminatedPod(ctx context.Context, r SyncRequest) error {
	return s.Release(ctx, r.Pod)
}

// SyncTerminatingOrphan implements OrphanSyncer.
func (s podsSyncer) SyncTerminatingOrphan(ctx context.Context, o Orphan, gracePeriodSeconds int64) error {
	return s.Stop(ctx, o.UID, nil, time.Duration(gracePeriodSeconds)*time.Second, func(*v1.PodStatus) {})
}

// StopUnknown stops a pod that only the container runtime knows. grace is rounded up to whole
// seconds and at least one. If the UID has a record of a Pod, StopUnknown does nothing and stopping
// is false, because the caller's listing may be stale. (UpdatePod with an Orphan would terminate
// the pod.)
func (w *Workers) StopUnknown(uid types.UID, namespace, name string, grace time.Duration) (stopping bool, err error) {
	seconds := max(int64((grace+time.Second-1)/time.Second), 1)
	u := Update{
		Type: UpdateKill, Orphan: &Orphan{UID: uid, Namespace: namespace, Name: name}, Kill: &KillOptions{GracePeriodSeconds: &seconds},
	}
	if err := w.validate(u); err != nil {
		return false, err
	}
	now := time.Now()
	w.mu.Lock()
	if e, ok := w.mu.entries[uid]; ok && e.orphan == nil {
		w.mu.Unlock()
		return false, nil
	}
	_, interrupt, err := w.apply(u, now)
	w.mu.Unlock()
	if interrupt != nil {
		interrupt()
	}
	return err == nil, err
}
