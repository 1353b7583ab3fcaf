// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

const (
	// cleanInterval is the time between two unprompted looks for remains of pods.
	cleanInterval = 30 * time.Second
	// garbageInterval is the time between two collections of exited containers, old sandboxes and
	// logs, ten times as long for a CompleteWatcher.
	garbageInterval = time.Minute
	// firstAudit is the time until the first look for leftovers. The start of many pods is over by then.
	firstAudit = 3 * time.Second
)

// Run asks workers for a sync of each pod that changed, as reported by the runtime or a probe.
// After every source of configuration has reported, Run stops pods that only the runtime knows. Run
// removes the remains of pods that are gone. Run blocks until ctx has ended and all removals have
// returned, and returns nil then. A second call is an error.
func (p *Pods) Run(ctx context.Context, workers Workers) error {
	if !p.workers.CompareAndSwap(nil, &workers) {
		return errors.New("podsync: Run was called before")
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	var trackerErr error
	wg.Go(func() { trackerErr = p.tracker.Run(ctx) })
	wg.Go(func() { p.cleanForever(ctx, workers) })
	wg.Go(func() { p.collectGarbage(ctx, workers) })
	p.passOnHints(ctx, workers)
	wg.Wait()
	return trackerErr
}

// passOnHints asks workers for a sync of each pod that the runtime or a probe reports as changed,
// until ctx ends.
func (p *Pods) passOnHints(ctx context.Context, workers Workers) {
	var probed <-chan struct{}
	if p.opts.Probes != nil {
		probed = p.opts.Probes.Dirty()
	}
	for {
		var uids []types.UID
		select {
		case <-ctx.Done():
			return
		case <-p.tracker.Dirty():
			uids = p.tracker.Take()
		case <-probed:
			uids = p.opts.Probes.Take()
		case <-p.tracker.Recovered():
			for _, r := range p.records.all() {
				if r.failing.Load() {
					uids = append(uids, r.uid)
				}
			}
			p.cleaning.Notify()
		}
		for _, uid := range uids {
			p.recheck(workers, uid)
		}
	}
}

// Recheck asks for a sync of a pod after a change that podsync cannot see, such as a probe result
// delivered elsewhere. Recheck returns at once. Without Run the call has no effect.
func (p *Pods) Recheck(uid types.UID) {
	if workers := p.workers.Load(); workers != nil {
		p.recheck(*workers, uid)
	}
}

func (p *Pods) recheck(workers Workers, uid types.UID) {
	if r := p.records.find(uid); r != nil {
		r.remind()
	}
	if !workers.Sync(uid) {
		p.cleaning.Notify()
	}
}

// collectGarbage removes garbage of living pods, and garbage that the removal of a pod has missed,
// in the first minute and then after each runtime.Unprompted time, until ctx ends. Garbage includes
// lost containers, which the runtime has lost because an earlier agent was killed. If the runtime
// implements runtime.Auditor, collectGarbage removes them earlier, too: after firstAudit and then after
// growing pauses, because the runtime still executes an interrupted call for a while.
func (p *Pods) collectGarbage(ctx context.Context, workers Workers) {
	query := p.query(workers)
	auditor, audits := p.opts.Runtime.(runtime.Auditor)
	failed := failurelog.Log{Logger: p.opts.Logger, Failed: "cannot collect all garbage"}
	interval := runtime.Unprompted(p.opts.Runtime, garbageInterval)
	for pause := firstAudit; retry.Sleep(ctx, min(pause, interval)) == nil; pause *= 2 {
		var err error
		switch {
		case 4*pause > garbageInterval:
			pause = interval
			err = p.opts.Manager.GarbageCollect(ctx, runtime.GCPolicy{LogRoot: p.opts.Generator.LogRoot}, query)
		case audits:
			err = runtime.CollectLeftovers(ctx, auditor)
		}
		if ctx.Err() == nil {
			failed.Report(err)
		}
	}
}

// FreeDisk removes the ended containers and sandboxes that no pod needs, with their logs. Of a pod
// that has ended and is told (Options.Told), FreeDisk removes all. Of another pod, it keeps the
// newest instance of each container. Run removes less, every minute, or every ten minutes if the
// runtime hints at each change. FreeDisk returns when ctx ends at the latest. Without Run it has no
// effect.
func (p *Pods) FreeDisk(ctx context.Context) error {
	workers := p.workers.Load()
	if workers == nil {
		return nil
	}
	policy := runtime.GCPolicy{AllUnused: true, MaxPerPodContainer: -2, LogRoot: p.opts.Generator.LogRoot}
	return p.opts.Manager.GarbageCollect(ctx, policy, p.query(*workers))
}

// query returns the knowledge about pods for garbage collection.
func (p *Pods) query(workers Workers) runtime.GCQuery {
	return runtime.GCQuery{
		Fate:     func(uid types.UID) runtime.PodFate { return p.fate(workers, uid) },
		Reported: p.reported,
	}
}

// fate returns how far the pod is in its life, as the workers say.
func (p *Pods) fate(workers Workers, uid types.UID) runtime.PodFate {
	switch {
	case workers.CouldHaveRunningContainers(uid):
		return runtime.PodLives
	case workers.ShouldPodContentBeRemoved(uid):
		return runtime.PodGone
	case workers.ShouldPodRuntimeBeRemoved(uid):
		return runtime.PodOver
	}
	return runtime.PodLives
}

// reported reports whether the exit of an instance is published, so that the instance's record may
// be removed. A record is still needed while the last published status names the instance, unless
// the pod is over and Options.Told reports so.
func (p *Pods) reported(uid types.UID, id runtime.ContainerID) bool {
	if p.opts.Told != nil && p.opts.Told(uid) {
		return true
	}
	r := p.records.find(uid)
	if r == nil {
		return false
	}
	shown := r.shown.Load()
	return shown != nil && !podstatus.Names(shown.status(), id)
}
