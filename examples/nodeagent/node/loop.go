// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
)

// housekeepingInterval is the longest time between two housekeeping passes, unless the runtime hints
// at each change; see runtime.Unprompted.
const housekeepingInterval = 30 * time.Second

// loop handles configuration changes and other work of the node, one item after another, in a
// single goroutine. Each turn handles all pending configuration changes and then a single item of
// other work, for example housekeeping. So neither kind of work starves. Pods that change by
// themselves are handled by podsync. loop never waits for the runtime.
func (a *Agent) loop(ctx context.Context) {
	tick := time.NewTicker(runtime.Unprompted(a.opts.Runtime, housekeepingInterval))
	defer tick.Stop()
	for {
		for ctx.Err() == nil {
			update, ok := a.config.queue.Pop()
			if !ok {
				break
			}
			a.handle(update)
		}
		select {
		case <-ctx.Done():
			return
		case <-a.config.queue.Ready():
		case <-a.gate.Changed():
			a.reconsider()
		case <-a.state.reconsider:
			a.reconsider()
		case <-a.state.housekeeping:
			a.reconcile()
		case <-tick.C:
			a.reconcile()
		case <-a.state.pings:
		}
	}
}

// handle processes one configuration update.
func (a *Agent) handle(u podconfig.Update) {
	// Apply leaves out mirror pods: they only represent static pods on the API server.
	pods, _ := a.config.index.Apply(u)
	for _, f := range a.features {
		if f.ConfigUpdated != nil {
			f.ConfigUpdated(u)
		}
	}
	for _, pod := range a.gate.Order(pods) {
		switch u.Op {
		case podconfig.OpAdd:
			a.add(pod)
		case podconfig.OpUpdate, podconfig.OpDelete:
			a.change(pod)
		case podconfig.OpRemove:
			a.remove(pod)
		case podconfig.OpReconcile:
			a.reconcilePod(pod)
		}
	}
	a.state.changed.Notify()
	a.config.readiness.Consumed(u)
	if u.Synced {
		a.noteSourced()
		a.state.housekeeping.Notify()
	}
}

// noteSourced closes Host.Sourced once every source has delivered its pods. Before closing, a
// housekeeping pass tells the workers the pods that are gone.
func (a *Agent) noteSourced() {
	if a.config.readiness.AllReady() && !a.host.HasSourced() {
		a.reconcile()
		close(a.host.Sourced)
	}
}

// remove terminates a pod that has left its source. A refused pod without a worker keeps the status
// of its refusal.
func (a *Agent) remove(pod *v1.Pod) {
	refused := a.host.Listing(pod.UID).Entry == feature.Refused
	a.host.RemoveDesired(pod.UID)
	a.gate.Release(pod.UID)
	if _, worked := a.host.Workers.Info(pod.UID); worked || !refused {
		a.update(podworkers.UpdateKill, pod)
	}
	a.state.housekeeping.Notify()
}

// add decides about a pod and starts an admitted pod.
func (a *Agent) add(pod *v1.Pod) {
	if a.admit(pod) {
		a.update(podworkers.UpdateCreate, pod)
	}
}

// change passes a pod's new spec to the worker. A pod that admission now refuses is terminated. A
// static pod with the same UID and another manifest hash is terminated and started again, because
// the runtime alone would only notice a changed image.
func (a *Agent) change(pod *v1.Pod) {
	was := a.host.Listing(pod.UID)
	if was.Refusal != nil && !podfacts.IsStatic(pod) {
		// The refusal is final: the API server has the status Failed. A static pod can be admitted
		// again after a change of its manifest.
		a.host.SetDesired(pod)
		a.endUnlessWorked(pod)
		return
	}
	var runs *v1.Pod // the version that goes on with the new spec
	if was.Desired != nil && was.Entry == feature.Admitted {
		runs = a.gate.Allocated(was.Desired)
	}
	if runs != nil && podfacts.IsStatic(pod) && pod.Annotations[podfacts.AnnotationHash] != runs.Annotations[podfacts.AnnotationHash] {
		a.remove(runs)
		runs = nil
	}
	kind := podworkers.UpdateCreate
	switch admitted := a.admit(pod); {
	case admitted && runs != nil:
		a.host.Sync.Revise(pod)
		kind = podworkers.UpdateUpdate
	case runs != nil:
		pod, kind = runs, podworkers.UpdateKill
	case !admitted:
		return
	}
	a.update(kind, pod)
}

// reconcilePod handles a pod with a new status on the API server. Usually this agent has written
// the status. Other clients set a terminal phase (see package declared) and the conditions of
// readiness gates.
func (a *Agent) reconcilePod(pod *v1.Pod) {
	old, known := a.host.Desired(pod.UID)
	a.host.SetDesired(pod)
	over := podfacts.IsTerminal(pod.Status.Phase)
	if !over && !(known && podfacts.GatesDiffer(old, pod)) ||
		!a.host.MayRun(pod.UID) || a.host.Workers.ShouldPodContainersBeTerminating(pod.UID) {
		return
	}
	a.update(podworkers.UpdateSync, pod)
	if over {
		a.host.Sync.Recheck(pod.UID)
	}
}

// reconsider decides again about the held pods, and passes granted resizes to the workers.
func (a *Agent) reconsider() {
	for _, pod := range a.gate.Order(a.gate.Reconsider()) {
		a.add(pod)
	}
	for _, pod := range a.gate.Resized() {
		a.update(podworkers.UpdateUpdate, pod)
	}
}

func (a *Agent) update(t podworkers.UpdateType, pod *v1.Pod) {
	u := podworkers.Update{Type: t, Pod: a.gate.Allocated(pod), Received: time.Now()}
	if err := a.host.Workers.UpdatePod(u); err != nil {
		a.host.Log.Error("update not accepted", feature.PodField(pod), zap.Stringer("type", t), zap.Error(err))
	}
}
