// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
)

// stopInOrder ends every pod, one class after another. A class whose pods have
// ended leaves the rest of its time; one that has used it up is left behind, and
// so is all when the time of all is over.
func (a *Agent) stopInOrder(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, shutdownTime(a.opts.ShutdownClasses), errOutOfTime)
	defer cancel()
	wanted := slices.DeleteFunc(a.pods.all(), func(p *v1.Pod) bool { return a.pods.isRejected(p.UID) })
	// From here on whom the workers do not know is gone.
	a.workers.SyncKnownPods(wanted)
	strangers := a.strangers(ctx, wanted)
	done := true
	for _, g := range planShutdown(a.opts.ShutdownClasses, wanted, strangers) {
		done = a.stopGroup(ctx, g) && done
	}
	if done {
		a.log.Info("all pods are stopped")
	}
	a.giveBack(ctx)
}

// strangers are the pods that run, or that are ending, although no source wants
// them.
func (a *Agent) strangers(ctx context.Context, wanted []*v1.Pod) (uids []types.UID) {
	known := make(map[types.UID]bool)
	for _, pod := range wanted {
		known[pod.UID] = true
	}
	add := func(uid types.UID) {
		if !known[uid] {
			known[uid] = true
			uids = append(uids, uid)
		}
	}
	for uid := range a.workers.All() {
		add(uid)
	}
	running, err := a.runtime.List(ctx, runtime.ListOptions{RunningOnly: true})
	if err != nil {
		a.log.Error("cannot look for pods that nobody wants", zap.Error(err))
	}
	for _, status := range running {
		add(status.UID)
	}
	slices.Sort(uids)
	return uids
}

// stopGroup ends the pods of a group, and reports whether all have within its time.
func (a *Agent) stopGroup(ctx context.Context, g shutdownGroup) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, g.limit, errOutOfTime)
	defer cancel()
	a.log.Info("stopping pods", zap.Int("pods", len(g.stops)), zap.Duration("within", g.limit))
	errs := make([]error, len(g.stops))
	var wg sync.WaitGroup
	for i, s := range g.stops {
		wg.Go(func() { errs[i] = a.stopOne(ctx, s) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			a.log.Error("could not stop a pod", zap.String("podUID", string(g.stops[i].uid)), zap.Error(err))
		}
	}
	return errors.Join(errs...) == nil
}

func (a *Agent) stopOne(ctx context.Context, s shutdownStop) error {
	kill := podworkers.KillOptions{GracePeriodSeconds: &s.grace, Status: interrupted}
	if s.pod != nil {
		return a.workers.KillPod(ctx, s.pod, kill)
	}
	err := a.workers.UpdatePod(podworkers.Update{
		Type: podworkers.UpdateKill, Orphan: &podworkers.Orphan{UID: s.uid}, Received: time.Now(),
		Kill: &kill,
	})
	if err != nil {
		return err
	}
	select {
	case <-a.workers.Terminated(s.uid):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
