// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
)

// loop is the one goroutine that decides. Each turn handles everything that is
// pending, in this order: configuration, pods that changed by themselves,
// housekeeping. There is no tick for pods: workers wake themselves.
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
		case <-ctx.Done():
			return
		case <-a.queue.Ready():
		case <-a.tracker.Dirty():
			a.handleDirty(a.tracker.Take())
		case <-a.housekeeping:
			a.housekeep(ctx)
		case <-tick.C:
			a.housekeep(ctx)
		case <-a.pings:
		}
	}
}

// handle acts on one change of the configuration.
func (a *Agent) handle(u podconfig.Update) {
	for _, pod := range u.Pods {
		switch u.Op {
		case podconfig.OpAdd:
			a.add(pod)
		case podconfig.OpUpdate, podconfig.OpDelete:
			if a.pods.isRejected(pod.UID) {
				a.add(pod)
				continue
			}
			a.pods.set(pod)
			a.update(podworkers.UpdateUpdate, pod)
		case podconfig.OpRemove:
			a.pods.remove(pod.UID)
			a.update(podworkers.UpdateKill, pod)
			a.poke()
		case podconfig.OpReconcile:
			a.pods.set(pod)
		}
	}
	a.readiness.Consumed(u)
	if u.Synced {
		a.poke()
	}
}

// add takes a pod in, or refuses it.
func (a *Agent) add(pod *v1.Pod) {
	a.pods.set(pod)
	if err := a.admit(pod); err != nil {
		a.reject(pod, err)
		return
	}
	a.pods.admit(pod.UID)
	a.warnUnwatched(pod)
	a.statuses.set(pod, a.statuses.get(pod))
	a.update(podworkers.UpdateCreate, pod)
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
			a.update(podworkers.UpdateSync, pod)
		}
	}
}

func (a *Agent) update(t podworkers.UpdateType, pod *v1.Pod) {
	u := podworkers.Update{Type: t, Pod: pod, Received: time.Now()}
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

// synced hears of every call for a pod that ended.
func (a *Agent) synced(e podworkers.SyncEvent) {
	if e.State == podworkers.StateTerminated && e.Err == nil {
		a.poke()
	}
}
