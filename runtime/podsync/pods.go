// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/alarm"
	"github.com/keelson-dev/keelson/internal/dirty"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

const (
	// firstPause is the pause after the first failed call. The pause doubles with each further
	// failure up to longestPause.
	firstPause, longestPause = time.Second, 10 * time.Second
	// namesakePause is the time between two syncs of a pod whose name is still taken.
	namesakePause = 100 * time.Millisecond
	// volumePatience is the longest time that a sync waits for the pod's volumes. The volumes are
	// set up further after that.
	volumePatience = 10 * time.Second
)

// Pods syncs pods and keeps the state of each pod between two calls. Pods implements
// podworkers.Pods; podworkers.Over makes a PodSyncer of Pods. The methods are safe for concurrent
// use by different pods. The worker must not call two methods for the same pod at once.
type Pods struct {
	opts    Options
	tracker *runtime.Tracker
	records records
	// cleaning wakes cleanForever to look for remains of any pod. gone are pods whose remains
	// cleanForever removes without a look. removals are the removals under way.
	cleaning signal.Signal
	gone     *dirty.Set
	removals sync.WaitGroup
	// complete: the runtime's hints cover every change.
	complete bool
	// workers is the argument of Run; nil before.
	workers atomic.Pointer[Workers]
}

// ErrRead is wrapped by the errors of Sync and Stop if reading the pod from the runtime failed. In
// that case the call had no effect.
var ErrRead = errors.New("read the pod from the runtime")

// New returns Pods without any pod. New starts no goroutine and touches no disk. The error names
// the invalid field of o.
func New(o Options) (*Pods, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: o.Runtime, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	p := &Pods{opts: o, tracker: tracker, complete: runtime.WatchesAll(o.Runtime), cleaning: signal.New(), gone: dirty.New()}
	p.records.byUID = make(map[types.UID]*record)
	return p, nil
}

// All returns the pods that were synced or stopped and have not been forgotten since, each with its
// last status, sorted by UID. The caller must not write to the shared pods.
func (p *Pods) All() []*v1.Pod {
	var all []*v1.Pod
	for _, r := range p.records.all() {
		if shown := r.shown.Load(); shown != nil {
			shallow := *shown.pod
			shallow.Status = *shown.status()
			all = append(all, &shallow)
		}
	}
	return all
}

// Sync brings the pod nearer to its spec and publishes the pod's status. over reports that the
// pod's phase is Succeeded or Failed.
//
// again is the time of the next call unless the pod changes before: the end of a back-off, the
// pod's deadline, or, with an error, the end of a pause. After an error of Manager.SyncPod the
// pause is that of Result.RetryAt, and there is no pause if all regular containers have ended for
// good. After other errors the pause doubles from 1 s to 10 s and is spread by Options.Jitter.
// Without an error, if over is false and again is zero, nothing is left to do. A crash-loop
// back-off is no error and is visible in the status.
func (p *Pods) Sync(ctx context.Context, pod *v1.Pod) (over bool, again time.Time, err error) {
	r, err := p.records.acquire(ctx, pod.UID)
	if err != nil {
		return false, time.Time{}, err
	}
	defer r.release()
	r.stopped.Store(nil)
	began := time.Now().UnixNano()
	call, stop := r.alarm.Begin(ctx, errDeadline)
	defer stop()
	over, again, err = p.sync(call, r, pod)
	switch {
	case ctx.Err() != nil:
		return false, time.Time{}, context.Cause(ctx)
	case call.Err() != nil:
		return false, time.Now(), nil // the next call fails the pod
	}
	// After a hint during this call, the last status may be stale. The hint causes another call at
	// once, which publishes err with a newer observation. After ErrRead there is no newer observation.
	stale := r.hinted.Load() >= began && !errors.Is(err, ErrRead)
	if r.conclude(err) && !stale {
		p.explain(r, pod)
	}
	r.resting.Store(!r.settled.IsZero() && (p.opts.Volumes == nil || !slices.ContainsFunc(pod.Spec.Volumes, isRenewed)))
	if err != nil && again.IsZero() {
		again = time.Now().Add(p.opts.Jitter(retry.Backoff(r.failures, firstPause, longestPause, 0)))
	}
	if left := p.timeLeft(pod, r.lastStatus(pod)); left > 0 && left < alarm.Never && (again.IsZero() || time.Until(again) > left) {
		again = time.Now().Add(left)
	}
	return over, again, err
}

// Rests implements podworkers.Rester: the last sync left nothing to do, the runtime hints at each
// change, and no volume of the pod needs syncs to renew its content.
func (p *Pods) Rests(uid types.UID) bool {
	r := p.records.find(uid)
	return p.complete && r != nil && r.resting.Load()
}

// isRenewed reports whether syncs of the pod may renew the content of a volume, for example a token.
func isRenewed(v v1.Volume) bool { return v.HostPath == nil && v.EmptyDir == nil }

// allEnded reports whether every regular container of pod has ended for good. Sidecars may still run.
func allEnded(pod *v1.Pod, observed *runtime.PodStatus) bool {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		newest := observed.Latest(c.Name)
		if newest == nil || newest.State != runtime.StateExited || runtime.ShouldRestart(pod, c, newest) {
			return false
		}
	}
	return true
}

// sync is Sync with the pod's turn. again is zero beside an error outside of Manager.SyncPod.
func (p *Pods) sync(ctx context.Context, r *record, pod *v1.Pod) (over bool, again time.Time, err error) {
	none := time.Time{}
	if err := p.renew(ctx, r); err != nil {
		return false, none, err
	}
	if r.isSettled(pod) && p.timeLeft(pod, r.lastStatus(pod)) > 0 {
		return false, none, nil
	}
	r.settled, r.ended = none, nil
	changed := r.attend()
	observed, err := p.observe(ctx, r)
	if err != nil {
		return false, none, err
	}
	if p.publish(r, pod, observed, podstatus.StageSync, nil) {
		r.ended = exited(observed)
		return true, none, nil
	}
	r.alarm.Set(p.timeLeft(pod, r.lastStatus(pod)))
	if taken, err := p.nameTaken(ctx, pod, observed); taken || err != nil {
		return false, time.Now().Add(namesakePause), err
	}
	req := runtime.SyncRequest{
		Pod: pod, Status: observed, Changed: changed,
		Finished: func(container string, made *runtime.ContainerStatus) bool {
			return runtime.Finished(pod, r.lastStatus(pod), container, made)
		},
		Progress: func(now runtime.Progress) { p.publishProgress(r, pod, now) },
	}
	if p.opts.Probes != nil {
		req.Probes = p.opts.Probes
	}
	for _, h := range p.opts.Hooks {
		if h.Around == nil {
			continue
		}
		undo, err := h.Around(ctx, &req)
		if err != nil {
			return false, none, err
		}
		if undo != nil {
			defer undo()
		}
	}
	if err := p.setUpVolumes(ctx, pod, observed); err != nil {
		return false, none, err
	}
	done := p.opts.Manager.SyncPod(ctx, req)
	r.starts.Apply(done.Steps)
	for _, h := range p.opts.Hooks {
		if h.Synced != nil {
			h.Synced(ctx, pod, &done)
		}
	}
	again, waits := done.RetryAt()
	if done.Status != nil {
		terminal := p.publish(r, pod, done.Status, podstatus.StageSync, nil)
		over = terminal && done.Err() == nil
		if terminal && !over || done.Err() != nil && allEnded(pod, done.Status) {
			again = time.Now() // the next call ends the pod, without the error of the last start
		}
		if !over && done.Err() == nil && !waits {
			r.settled = done.Status.ObservedAt
			p.tracker.Observed(done.Status)
		}
	}
	if done.Failed() {
		err = done.Err()
	}
	return over, again, err
}

// observe returns the runtime's status of the pod of r. If the runtime hints at each change, a new
// pod that was neither listed nor hinted at has no remains, and is not read.
func (p *Pods) observe(ctx context.Context, r *record) (*runtime.PodStatus, error) {
	if p.complete && r.shown.Load() == nil && r.hinted.Load() == 0 && p.tracker.Lacks(r.uid) {
		return &runtime.PodStatus{UID: r.uid, ObservedAt: time.Now()}, nil
	}
	return p.read(ctx, r.uid)
}

// exited returns status if every container has exited, and nil otherwise.
func exited(status *runtime.PodStatus) *runtime.PodStatus {
	if slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool { return c.State != runtime.StateExited }) {
		return nil
	}
	return status
}

// read returns the runtime's status of a pod. The error wraps ErrRead.
func (p *Pods) read(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	status, err := p.opts.Runtime.PodStatus(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRead, err)
	}
	return status, nil
}

// renew begins the pod's life, after the removal of the remains of an earlier life. Containers that
// exited in the earlier life do not decide whether the containers of the new manifest run.
func (p *Pods) renew(ctx context.Context, r *record) error {
	if r.life.Load() == lifeFormer {
		if err := p.removeRemains(ctx, r); err != nil {
			return fmt.Errorf("remove the remains of an earlier pod with this UID: %w", err)
		}
		r.progress = progress{}
	}
	r.life.Store(lifeNow)
	return nil
}

// removeRemains removes the pod from the runtime, and its logs. Without a record in the runtime,
// restarts are counted by log files.
func (p *Pods) removeRemains(ctx context.Context, r *record) error {
	status := r.stopped.Swap(nil)
	var err error
	if status != nil && p.complete {
		err = p.opts.Manager.RemoveObserved(ctx, status)
	} else {
		status = &runtime.PodStatus{}
		err = p.opts.Manager.RemovePod(ctx, r.uid)
	}
	if err != nil {
		return err
	}
	return runtime.RemovePodLogs(p.opts.Generator.LogRoot, status.Namespace, status.Name, r.uid)
}

var errVolumesLate = errors.New("still waiting for volumes")

// setUpVolumes returns when the pod's volumes are mounted. A pod whose regular containers have all
// ended needs no volumes.
func (p *Pods) setUpVolumes(ctx context.Context, pod *v1.Pod, observed *runtime.PodStatus) error {
	if p.opts.Volumes == nil || allEnded(pod, observed) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, volumePatience, errVolumesLate)
	defer cancel()
	return p.opts.Volumes.WaitForAttachAndMount(ctx, pod)
}

// Stop stops the pod's containers within grace, in the order of their hooks and sidecars, and
// publishes the exits. A nil error means that the runtime reports no running container of the pod.
// pod is nil if only the runtime knows the pod; then no status is published. edit is applied to
// each status before publication.
func (p *Pods) Stop(ctx context.Context, uid types.UID, pod *v1.Pod, grace time.Duration, edit func(*v1.PodStatus)) error {
	r, err := p.records.acquire(ctx, uid)
	if err != nil {
		return err
	}
	defer r.release()
	r.life.CompareAndSwap(lifeNone, lifeNow)
	if p.opts.Probes != nil {
		p.opts.Probes.StopLivenessAndStartup(uid)
	}
	req := runtime.KillRequest{UID: uid, Pod: pod, Grace: &grace}
	if pod != nil {
		if err := p.renew(ctx, r); err != nil { // a pod may be killed before its first Sync
			return err
		}
		req.Status, r.ended = r.ended, nil
		if req.Status == nil {
			if req.Status, err = p.read(ctx, uid); err != nil {
				return err
			}
			p.publish(r, pod, req.Status, podstatus.StageTerminating, edit)
		} // else the last Sync has published the exits
	}
	result := p.opts.Manager.KillPod(ctx, req)
	if err := result.Err(); err != nil {
		return err
	}
	if running := result.Status.Running(); len(running) > 0 {
		return fmt.Errorf("container %s is still %s after it was stopped", running[0].Name, running[0].State)
	}
	if p.opts.Probes != nil {
		p.opts.Probes.RemovePod(uid)
	}
	if pod != nil {
		p.publish(r, pod, result.Status, podstatus.StageTerminated, edit)
	}
	r.stopped.Store(result.Status)
	return nil
}

// Release unmounts the volumes of a pod without running containers, releases the hooks, and calls
// Options.Ended.
func (p *Pods) Release(ctx context.Context, pod *v1.Pod) error {
	r, err := p.records.acquire(ctx, pod.UID)
	if err != nil {
		return err
	}
	defer r.release()
	if p.opts.Probes != nil { // the pod may have terminated before its first sync
		p.opts.Probes.RemovePod(pod.UID)
	}
	if p.opts.Volumes != nil {
		if err := p.opts.Volumes.WaitForUnmount(ctx, pod.UID); err != nil {
			return err
		}
	}
	for _, h := range slices.Backward(p.opts.Hooks) {
		if h.Release != nil {
			if err := h.Release(ctx, pod); err != nil {
				return err
			}
		}
	}
	if p.opts.Ended != nil {
		p.opts.Ended(pod)
	}
	return nil
}

// Forgotten ends the life of the pod of this UID. The pod's remains in the runtime are removed in
// the background, or before a pod of the same UID begins.
func (p *Pods) Forgotten(uid types.UID) {
	r := p.records.of(uid)
	r.life.Store(lifeFormer)
	r.shown.Store(nil)
	p.gone.Mark(uid)
}
