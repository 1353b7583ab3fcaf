// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// syncer is what happens to one pod. podworkers calls it, never twice at once
// for one pod.
type syncer struct {
	agent    *Agent
	renewals *renewals

	mu struct {
		sync.Mutex
		failures map[types.UID]runtime.StartFailures
		resizing map[types.UID]runtime.Resizing // of pods whose resize in place is under way
		granted  map[types.UID]*v1.Pod          // pods whose containers do not have yet what these give them
		changed  map[types.UID]chan struct{}    // capacity 1, of pods being synced
		hinted   map[types.UID]time.Time        // when a pod was last said to have changed
		settled  map[types.UID]time.Time        // when a pod was last seen with nothing left to do
	}
}

func newSyncer(a *Agent) *syncer {
	s := &syncer{agent: a, renewals: newRenewals()}
	s.mu.failures = make(map[types.UID]runtime.StartFailures)
	s.mu.resizing = make(map[types.UID]runtime.Resizing)
	s.mu.granted = make(map[types.UID]*v1.Pod)
	s.mu.changed = make(map[types.UID]chan struct{})
	s.mu.hinted = make(map[types.UID]time.Time)
	s.mu.settled = make(map[types.UID]time.Time)
	return s
}

// attend lets changed reach the pod's sync that begins now, until done.
func (s *syncer) attend(uid types.UID) (changed <-chan struct{}, done func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	s.mu.changed[uid] = ch
	s.mu.Unlock()
	return ch, func() {
		s.mu.Lock()
		delete(s.mu.changed, uid)
		s.mu.Unlock()
	}
}

// wake tells the pod's sync, if one is under way, that the pod changed by itself.
func (s *syncer) wake(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.hinted[uid] = time.Now()
	select {
	case s.mu.changed[uid] <- struct{}{}:
	default:
	}
}

// keep forgets every pod for which known says no: a hint may come when a pod's last
// call is over.
func (s *syncer) keep(known func(types.UID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.mu.hinted, func(uid types.UID, _ time.Time) bool { return !known(uid) })
}

// hintWindow is for how long after a pod was seen a hint may be about what was
// seen then. It is shorter than any resync.
const hintWindow = 5 * time.Second

// knows reports whether a sync that nothing but a hint asks for has nothing to
// find: the pod was seen after the hint, with nothing left to do. Runtimes hint
// at everything that the agent itself just did.
func (s *syncer) knows(r podworkers.SyncRequest) bool {
	if r.Type != podworkers.UpdateSync || r.Attempt > 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.mu.settled[r.Pod.UID]
	return time.Since(seen) < hintWindow && seen.After(s.mu.hinted[r.Pod.UID])
}

// sees notes what came of a sync.
func (s *syncer) sees(uid types.UID, result *runtime.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.settled, uid)
	if result.Err() == nil && result.Status != nil {
		s.mu.settled[uid] = result.Status.ObservedAt
	}
}

// SyncPod brings the pod nearer to its spec and says so in its status. It is
// over when the pod's phase is.
func (s *syncer) SyncPod(ctx context.Context, r podworkers.SyncRequest) (terminal bool, err error) {
	a, pod := s.agent, r.Pod
	if s.knows(r) {
		return false, nil
	}
	if err := a.collector.settled(ctx, pod.UID); err != nil {
		return false, err
	}
	if err := s.renew(ctx, pod.UID); err != nil {
		return false, err
	}
	observed, err := a.runtime.PodStatus(ctx, pod.UID)
	if err != nil {
		err = fmt.Errorf("read the pod from the runtime: %w", err)
		s.complain(ctx, pod, eventFailedSync, "error determining status: ", err)
		return false, err
	}
	if over := s.publish(pod, observed, podstatus.StageSync, nil); over {
		return true, nil
	}
	if err := s.awaitNamesake(ctx, pod, observed); err != nil {
		return false, err
	}
	a.register(pod)
	images, err := a.hold(ctx, pod)
	if err != nil {
		return false, err
	}
	defer images.release()
	if err := a.volumes.setUp(ctx, pod); err != nil {
		return false, err
	}
	changed, done := s.attend(pod.UID)
	defer done()
	result := a.manager.SyncPod(ctx, runtime.SyncRequest{
		Pod:        pod,
		Status:     observed,
		Probes:     a.probes,
		RestartAll: runtime.RestartAllTriggered(pod, observed),
		Finished: func(container string, made *runtime.ContainerStatus) bool {
			status := a.statuses.get(pod) // what SyncPod itself restarts is not told to have ended
			return podstatus.Finished(pod, &status, container, made)
		},
		Changed: changed,
		Progress: func(p runtime.Progress) {
			s.note(pod.UID, p.Done)
			s.progress(pod, p)
		},
		ImageFound: images.found,
	})
	s.note(pod.UID, result.Steps)
	s.noteResize(ctx, pod, &result)
	s.sees(pod.UID, &result)
	if result.Status != nil {
		terminal = s.publish(pod, result.Status, podstatus.StageSync, nil)
	}
	return terminal && result.Err() == nil, retry(&result, r.Attempt)
}

// quickRetries is how often a sandbox that could not be made is tried again
// soon: after a crash of the agent the runtime may still be at work on it.
const quickRetries = 5

// failureBackoff is how long what failed waits for another try, if nothing else
// is due earlier.
const failureBackoff = 10 * time.Second

// retry says when a sync that failed is worth another try: exactly when a
// back-off ends, soon for a sandbox, else after a while.
func retry(result *runtime.Result, attempt int) error {
	err := result.Err()
	at, waiting := result.RetryAt()
	switch {
	case errors.Is(err, runtime.ErrCreatePodSandbox) && attempt < quickRetries:
		return errors.Join(err, podworkers.ErrTransient)
	case waiting && result.Failed():
		return podworkers.RetryAfter(err, earlier(at, time.Now().Add(failureBackoff)))
	case waiting:
		return podworkers.RetryAfter(errors.Join(err, errOnlyWaits), at)
	}
	return err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// errOnlyWaits marks an error that is no failure: the pod waits for a time that
// is known.
var errOnlyWaits = errors.New("waiting")

// errNamesake says that another pod of the same name still runs.
var errNamesake = errors.New("an earlier pod of this name still runs")

// namesakePause is how soon a pod that waits for its namesake looks again.
const namesakePause = 100 * time.Millisecond

// awaitNamesake keeps a static pod from starting beside an earlier one of its
// name that an agent before this one started and whose manifest was changed
// meanwhile: two instances of one service. Within this agent's life podworkers
// sees to that.
func (s *syncer) awaitNamesake(ctx context.Context, pod *v1.Pod, observed *runtime.PodStatus) error {
	if observed.Current() != nil || !podconfig.IsStatic(pod) {
		return nil
	}
	listed, at := s.agent.tracker.Pods()
	if at.IsZero() {
		var err error
		if listed, err = s.agent.runtime.List(ctx, runtime.ListOptions{}); err != nil {
			return fmt.Errorf("look for an earlier pod of this name: %w", err)
		}
	}
	for _, other := range listed {
		if other.UID == pod.UID || other.Name != pod.Name || other.Namespace != pod.Namespace {
			continue
		}
		if _, wanted := s.agent.pods.get(other.UID); wanted {
			continue
		}
		now, err := s.agent.runtime.PodStatus(ctx, other.UID)
		if err != nil {
			return fmt.Errorf("look for an earlier pod of this name: %w", err)
		}
		if len(now.Running()) == 0 && now.Current() == nil {
			continue
		}
		s.agent.stopOrphan(now)
		return podworkers.RetryAfter(errors.Join(errNamesake, errOnlyWaits), time.Now().Add(namesakePause))
	}
	return nil
}

// Reasons of events about pods as a whole, with the kubelet's words (1.36).
const (
	eventFailedSync    = "FailedSync"
	eventFailedKillPod = "FailedKillPod"
)

// complain tells why a pod does not get on, once until it does.
func (s *syncer) complain(ctx context.Context, pod *v1.Pod, reason, what string, err error) {
	if ctx.Err() == nil && s.agent.failures.last(pod.UID) == "" {
		s.agent.opts.Events.Event(reference(pod), v1.EventTypeWarning, reason, what+err.Error())
	}
}

// SyncTerminatingPod stops the pod, and returns nil only when the runtime says
// that nothing of it runs.
func (s *syncer) SyncTerminatingPod(ctx context.Context, r podworkers.TerminatingRequest) error {
	err := s.terminate(ctx, r)
	if err != nil {
		s.complain(ctx, r.Pod, eventFailedKillPod, "error killing pod: ", err)
	}
	return err
}

func (s *syncer) terminate(ctx context.Context, r podworkers.TerminatingRequest) error {
	a, pod := s.agent, r.Pod
	a.probes.StopLivenessAndStartup(pod.UID)
	observed, err := a.runtime.PodStatus(ctx, pod.UID)
	if err != nil {
		return fmt.Errorf("read the pod from the runtime: %w", err)
	}
	s.publish(pod, observed, podstatus.StageTerminating, r.ApplyStatus)
	grace := time.Duration(r.GracePeriodSeconds) * time.Second
	result := a.manager.KillPod(ctx, runtime.KillRequest{Pod: pod, Status: observed, Grace: &grace})
	if err := result.Err(); err != nil {
		return err
	}
	if running := result.Status.Running(); len(running) > 0 {
		return fmt.Errorf("container %s is still %s after it was stopped", running[0].Name, running[0].State)
	}
	a.probes.RemovePod(pod.UID)
	s.publish(pod, result.Status, podstatus.StageTerminated, r.ApplyStatus)
	return nil
}

// SyncTerminatedPod gives back what the pod held.
func (s *syncer) SyncTerminatedPod(ctx context.Context, r podworkers.SyncRequest) error {
	s.mu.Lock()
	delete(s.mu.failures, r.Pod.UID)
	delete(s.mu.resizing, r.Pod.UID)
	delete(s.mu.granted, r.Pod.UID)
	delete(s.mu.hinted, r.Pod.UID)
	delete(s.mu.settled, r.Pod.UID)
	s.mu.Unlock()
	s.agent.probes.RemovePod(r.Pod.UID)
	if err := s.agent.volumes.tearDown(ctx, r.Pod.UID); err != nil {
		return err
	}
	s.agent.unregister(r.Pod.UID)
	s.agent.ended(r.Pod)
	s.agent.mirrors.poke()
	return nil
}

// SyncTerminatingOrphan stops a pod that only the runtime knows.
func (s *syncer) SyncTerminatingOrphan(ctx context.Context, o podworkers.Orphan, gracePeriodSeconds int64) error {
	grace := time.Duration(gracePeriodSeconds) * time.Second
	result := s.agent.manager.KillPod(ctx, runtime.KillRequest{UID: o.UID, Grace: &grace})
	if err := result.Err(); err != nil {
		return err
	}
	if len(result.Status.Running()) > 0 {
		return errors.New("containers still run after they were stopped")
	}
	s.agent.poke()
	return nil
}
