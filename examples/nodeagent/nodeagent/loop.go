// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
)

// loop is the one goroutine that decides. Each turn handles all of the configuration
// that is pending, then the pods that changed by themselves, then one of whatever else
// there is, such as housekeeping; so none of these starves another. There is no tick
// for pods: workers wake themselves. It never waits for the runtime.
func (a *Agent) loop(ctx context.Context) {
	tick := time.NewTicker(a.opts.HousekeepingInterval)
	defer tick.Stop()
	for {
		for ctx.Err() == nil {
			update, ok := a.queue.Pop()
			if !ok {
				break
			}
			a.handle(update)
		}
		select {
		case <-a.tracker.Dirty():
			a.handleDirty(a.tracker.Take())
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-a.queue.Ready():
		case <-a.tracker.Dirty():
			a.handleDirty(a.tracker.Take())
		case <-a.tracker.Recovered():
			a.retryFailed()
		case <-a.deadlines.signal:
			a.handleDeadlines()
		case former := <-a.gate.memory:
			a.gate.remember(former)
			a.reconsider()
		case news := <-a.gate.news:
			a.gate.heard(news)
			a.reconsider()
		case <-a.gate.room:
			a.reconsider()
		case <-a.housekeeping:
			a.housekeep(ctx)
		case <-tick.C:
			a.housekeep(ctx)
		case found := <-a.leftovers.listed:
			a.clearUp(ctx, found)
		case status := <-a.leftovers.orphans:
			if works := a.reconcile(); !works(status.UID) {
				a.stopOrphan(status)
			}
		case <-a.pings:
		}
	}
}

// handle acts on one change of the configuration.
func (a *Agent) handle(u podconfig.Update) {
	for _, pod := range a.gate.order(a.learn(u)) {
		switch u.Op {
		case podconfig.OpAdd:
			a.add(pod)
		case podconfig.OpUpdate, podconfig.OpDelete:
			a.change(pod)
		case podconfig.OpRemove:
			a.pods.remove(pod.UID)
			a.gate.leave(pod.UID)
			a.deadlines.drop(pod.UID)
			a.update(podworkers.UpdateKill, pod)
			a.syncer.renewals.mark(pod.UID)
			a.poke()
		case podconfig.OpReconcile:
			a.pods.set(pod)
			a.statuses.add(pod)
			a.heed(pod)
		}
	}
	a.readiness.Consumed(u)
	if u.Synced {
		a.noteSourced()
		a.poke()
	}
}

// add takes a pod in, or refuses it, or leaves that for later.
func (a *Agent) add(pod *v1.Pod) {
	a.pods.set(pod)
	if !a.settle(pod, a.gate.rule(pod)) {
		return
	}
	if a.pods.isRejected(pod.UID) {
		a.pods.admit(pod.UID)
		a.statuses.drop(pod.UID) // it was Failed, which nothing comes back from
	}
	a.statuses.add(pod)
	a.update(podworkers.UpdateCreate, pod)
}

// change passes on a pod's new spec. A pod that does not pass admission any more
// is ended. One whose manifest changed although it names its own UID is ended and
// started again: the runtime alone would see no more than a changed image.
func (a *Agent) change(pod *v1.Pod) {
	old, known := a.pods.get(pod.UID)
	switch {
	case known && a.refused(pod):
		a.pods.set(pod)
		a.endUnlessWorked(pod)
		return
	case !known || a.pods.isRejected(pod.UID):
		a.add(pod)
		return
	}
	another := podconfig.IsStatic(pod) && pod.Annotations[podconfig.AnnotationHash] != old.Annotations[podconfig.AnnotationHash]
	a.pods.set(pod)
	if !podconfig.IsStatic(pod) {
		a.statuses.add(pod)
	}
	if another {
		a.gate.leave(pod.UID)
	}
	ruling := a.gate.rule(pod)
	if another || !ruling.admits() {
		a.update(podworkers.UpdateKill, old)
		a.syncer.renewals.mark(pod.UID)
	}
	switch {
	case !a.settle(pod, ruling):
	case another:
		a.update(podworkers.UpdateCreate, pod)
	default:
		a.deadlines.set(pod, a.statuses.get(pod).StartTime)
		a.update(podworkers.UpdateUpdate, pod)
	}
}

// heed ends a pod that somebody else has declared over: its phase on the API
// server is never undone.
func (a *Agent) heed(pod *v1.Pod) {
	if !isOver(pod.Status.Phase) || a.pods.isRejected(pod.UID) || a.workers.ShouldPodContainersBeTerminating(pod.UID) {
		return
	}
	a.declarations.note(pod)
	a.syncer.wake(pod.UID)
	a.update(podworkers.UpdateSync, pod)
}

// handleDirty has pods synced that changed by themselves. One that should not
// be there at all is housekeeping's.
func (a *Agent) handleDirty(uids []types.UID) {
	for _, uid := range uids {
		pod, ok := a.pods.get(uid)
		switch {
		case !ok:
			a.poke()
		case !a.pods.isRejected(uid):
			a.syncer.wake(uid)
			a.update(podworkers.UpdateSync, pod)
		}
	}
}

// retryFailed has pods synced whose last call failed: the runtime is back.
func (a *Agent) retryFailed() {
	for _, pod := range a.pods.all() {
		if !a.pods.isRejected(pod.UID) && a.failures.last(pod.UID) != "" {
			a.update(podworkers.UpdateSync, pod)
		}
	}
	a.poke()
}

func (a *Agent) update(t podworkers.UpdateType, pod *v1.Pod) {
	u := podworkers.Update{Type: t, Pod: a.gate.asRun(pod), Received: time.Now()}
	if err := a.workers.UpdatePod(u); err != nil {
		a.log.Error("update not accepted", podField(pod), zap.Stringer("type", t), zap.Error(err))
	}
}

// poke asks for housekeeping soon.
func (a *Agent) poke() {
	select {
	case a.housekeeping <- struct{}{}:
	default:
	}
}

// synced hears of every call for a pod that ended. What failed is logged once,
// until it fails differently; a wait that was planned is no failure.
func (a *Agent) synced(e podworkers.SyncEvent) {
	if told := a.opts.Observer.PodSynced; told != nil {
		told(e)
	}
	switch {
	case e.Err != nil:
	case e.State == podworkers.StateTerminating:
		a.gate.end(e.UID)
	case e.State == podworkers.StateTerminated:
		a.poke()
	}
	if e.Interrupted || e.Pod == nil && e.Err == nil {
		return
	}
	text := ""
	if e.Err != nil && !errors.Is(e.Err, errOnlyWaits) {
		text = e.Err.Error()
	}
	if a.failures.changed(e.UID, text) && text != "" {
		fields := []zap.Field{zap.String("podUID", string(e.UID)), zap.Stringer("state", e.State), zap.Error(e.Err)}
		if e.Pod != nil {
			fields = append(fields, podField(e.Pod))
		}
		a.log.Warn("pod sync failed", fields...)
	}
}
