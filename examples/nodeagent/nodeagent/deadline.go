// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// Reason and message of a pod that has run for too long, as the kubelet's (1.36).
const (
	reasonDeadline  = "DeadlineExceeded"
	messageDeadline = "Pod was active on the node longer than the specified deadline"
)

// deadlines tells the loop which pods have been active for too long. There is one
// timer for each pod that has a deadline.
type deadlines struct {
	began  time.Time     // what is older is another agent's
	signal chan struct{} // capacity 1: something is due

	mu struct {
		sync.Mutex
		timers map[types.UID]*alarm
		due    map[types.UID]bool
	}
}

type alarm struct {
	at    time.Time
	timer *time.Timer
}

func newDeadlines() *deadlines {
	d := &deadlines{began: time.Now(), signal: make(chan struct{}, 1)}
	d.mu.timers = make(map[types.UID]*alarm)
	d.mu.due = make(map[types.UID]bool)
	return d
}

// activeUntil is when a pod that started then has been active for too long.
func activeUntil(pod *v1.Pod, start *metav1.Time) (at time.Time, limited bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || start.IsZero() {
		return time.Time{}, false
	}
	return start.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second), true
}

// set has a pod reported at its deadline, and not at an earlier one that it had.
func (d *deadlines) set(pod *v1.Pod, start *metav1.Time) {
	at, limited := activeUntil(pod, start)
	if !limited {
		d.drop(pod.UID)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.mu.timers[pod.UID]; old != nil {
		if old.at.Equal(at) {
			return
		}
		old.timer.Stop()
	}
	uid := pod.UID
	d.mu.timers[uid] = &alarm{at: at, timer: time.AfterFunc(time.Until(at), func() { d.ring(uid) })}
}

func (d *deadlines) ring(uid types.UID) {
	d.mu.Lock()
	delete(d.mu.timers, uid)
	d.mu.due[uid] = true
	d.mu.Unlock()
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// drop forgets a pod.
func (d *deadlines) drop(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.mu.timers[uid]; a != nil {
		a.timer.Stop()
	}
	delete(d.mu.timers, uid)
	delete(d.mu.due, uid)
}

// take returns whose deadline may have passed since it was last called.
func (d *deadlines) take() map[types.UID]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	due := d.mu.due
	d.mu.due = make(map[types.UID]bool)
	return due
}

// stop disarms every timer.
func (d *deadlines) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.mu.timers {
		a.timer.Stop()
	}
	clear(d.mu.timers)
}

// handleDeadlines ends the pods that have been active for too long, whatever is
// being done for them just now: a pod whose image does not come is over, too.
func (a *Agent) handleDeadlines() {
	for uid := range a.deadlines.take() {
		pod, ok := a.pods.get(uid)
		if !ok || a.pods.isRejected(uid) || a.workers.IsPodTerminationRequested(uid) {
			continue
		}
		status := a.statuses.get(pod)
		at, limited := activeUntil(pod, status.StartTime)
		switch {
		case !limited || isOver(status.Phase):
			continue
		case time.Now().Before(at): // it was moved, or the clock was
			a.deadlines.set(pod, status.StartTime)
			continue
		}
		a.opts.Events.Event(reference(pod), v1.EventTypeNormal, reasonDeadline, messageDeadline)
		err := a.workers.UpdatePod(podworkers.Update{
			Type: podworkers.UpdateKill, Pod: a.gate.asRun(pod), Received: time.Now(),
			Kill: &podworkers.KillOptions{Status: failAs(reasonDeadline, messageDeadline, nil)},
		})
		if err != nil {
			a.log.Error("could not end a pod at its deadline", podField(pod), zap.Error(err))
		}
	}
}

// startedAt gives a pod whose start is not on record, because it is static and
// this agent did not start it, the time of the oldest thing that an earlier one
// has left of it.
func (a *Agent) startedAt(status *v1.PodStatus, pod *v1.Pod, observed *runtime.PodStatus) *metav1.Time {
	if !status.StartTime.IsZero() || !pod.Status.StartTime.IsZero() || observed == nil {
		return status.StartTime
	}
	var first time.Time
	for i := range observed.Sandboxes {
		if at := observed.Sandboxes[i].CreatedAt; !at.IsZero() && !at.After(a.deadlines.began) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return nil
	}
	return &metav1.Time{Time: first}
}

// overdue fails a pod whose deadline has passed: it may have while there was no
// agent, and such a pod is not to be started again.
func (a *Agent) overdue(pod *v1.Pod, previous *v1.PodStatus) *podstatus.Override {
	start := previous.StartTime
	if start.IsZero() {
		start = pod.Status.StartTime
	}
	at, limited := activeUntil(a.desired(pod), start)
	if !limited || isOver(previous.Phase) || time.Now().Before(at) {
		return nil
	}
	a.opts.Events.Event(reference(pod), v1.EventTypeNormal, reasonDeadline, messageDeadline)
	return &podstatus.Override{Reason: reasonDeadline, Message: messageDeadline}
}

// watchDeadline sees to it that a pod that goes on is ended in time.
func (a *Agent) watchDeadline(pod *v1.Pod, status *v1.PodStatus, stage podstatus.Stage) {
	if stage != podstatus.StageSync || isOver(status.Phase) {
		a.deadlines.drop(pod.UID)
		return
	}
	a.deadlines.set(a.desired(pod), status.StartTime)
}

// desired is the latest version of a pod.
func (a *Agent) desired(pod *v1.Pod) *v1.Pod {
	if latest, ok := a.pods.get(pod.UID); ok {
		return latest
	}
	return pod
}
