// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
)

// leftovers is how the loop finds pods that nobody works on. It asks the runtime
// beside itself, because the runtime may be slow, and goes on when the answer is
// there. The fields but the channels are the loop's own.
type leftovers struct {
	looking bool // a listing is under way
	again   bool // another was asked for meanwhile
	failing bool // the last one failed

	listed  chan listing
	orphans chan *runtime.PodStatus // of pods that nobody worked on when they were listed
}

type listing struct {
	pods []*runtime.PodStatus
	err  error
}

func newLeftovers() *leftovers {
	return &leftovers{listed: make(chan listing), orphans: make(chan *runtime.PodStatus)}
}

// look asks for a listing that begins now or later; clearUp gets it.
func (a *Agent) look(ctx context.Context) {
	l := a.leftovers
	if l.looking {
		l.again = true
		return
	}
	l.looking, l.again = true, false
	a.collector.wg.Go(func() {
		pods, err := a.runtime.List(ctx, runtime.ListOptions{})
		select {
		case l.listed <- listing{pods, err}:
		case <-ctx.Done():
		}
	})
}

// clearUp deals with what the runtime and the disk have of pods that nobody
// works on. The listing is as old as the runtime was slow; what is worked on is
// asked now, so that nobody takes a pod that came since for a leftover.
func (a *Agent) clearUp(ctx context.Context, found listing) {
	l := a.leftovers
	l.looking = false
	if l.again {
		a.look(ctx)
	}
	switch {
	case found.err != nil && !l.failing:
		a.log.Warn("cannot look for leftover pods", zap.Error(found.err))
	case found.err == nil && l.failing:
		a.log.Info("leftover pods are looked for again")
	}
	if l.failing = found.err != nil; l.failing {
		return
	}
	works := a.reconcile()
	left := make(map[types.UID]bool)
	for _, status := range found.pods {
		if works(status.UID) {
			continue
		}
		left[status.UID] = true
		if len(status.Running()) > 0 || status.Current() != nil {
			a.inspectOrphan(ctx, status.UID)
		} else {
			a.collector.collect(ctx, status.UID)
		}
	}
	for _, uid := range a.syncer.renewals.pods() { // of some the runtime may have nothing any more
		if _, wanted := a.pods.get(uid); !wanted && !works(uid) && !left[uid] {
			left[uid] = true
			a.collector.collect(ctx, uid)
		}
	}
	for _, uid := range a.collector.sweep(ctx, func(uid types.UID) bool { return works(uid) || left[uid] }) {
		left[uid] = true
	}
	a.collector.failures.keep(func(uid types.UID) bool { return left[uid] })
}

// inspectOrphan reads a pod in full that only the runtime knows, beside the
// loop, which then stops it.
func (a *Agent) inspectOrphan(ctx context.Context, uid types.UID) {
	a.collector.beside(ctx, uid, func() error {
		status, err := a.runtime.PodStatus(ctx, uid)
		if err != nil {
			return fmt.Errorf("look at a pod that nobody wants: %w", err)
		}
		if len(status.Running()) == 0 && status.Current() == nil {
			a.poke() // it has ended since it was listed: it is to be removed
			return nil
		}
		select {
		case a.leftovers.orphans <- status:
		case <-ctx.Done():
		}
		return nil
	})
}

// stopOrphan ends a pod that only the runtime knows, with the grace period that
// its containers were made with.
func (a *Agent) stopOrphan(status *runtime.PodStatus) {
	grace := runtime.MinGracePeriod
	for _, c := range status.Running() {
		pod, container := runtime.RestorePod(status, c)
		grace = max(grace, runtime.GracePeriod(pod, container, runtime.KillPodTerminating))
	}
	if _, known := a.workers.Info(status.UID); !known && a.opts.Observer.OrphanFound != nil {
		a.opts.Observer.OrphanFound(status.UID)
	}
	seconds := int64(grace.Seconds())
	err := a.workers.UpdatePod(podworkers.Update{
		Type:   podworkers.UpdateKill,
		Orphan: &podworkers.Orphan{UID: status.UID, Namespace: status.Namespace, Name: status.Name},
		Kill:   &podworkers.KillOptions{GracePeriodSeconds: &seconds},
	})
	if err != nil {
		a.log.Error("cannot stop a pod that nobody wants", zap.String("podUID", string(status.UID)), zap.Error(err))
	}
}
