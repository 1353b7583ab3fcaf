// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/bigstack"
	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// cleanForever removes the remains of the pods in gone. Also, it looks for remains of pods when
// Synced closes, when cleaning says so, and every cleanInterval, or earlier while remains are found.
func (p *Pods) cleanForever(ctx context.Context, workers Workers) {
	defer p.removals.Wait()
	select {
	case <-workers.Synced():
	case <-ctx.Done():
		return
	}
	var since time.Time // when remains were found first; zero: nothing was left
	failed := failurelog.Log{Logger: p.opts.Logger, Failed: "cannot look for remains of pods"}
	for {
		soonest := time.Now().Add(time.Second)
		left, err := p.lookForLeftovers(ctx, workers)
		if ctx.Err() == nil {
			failed.Report(err)
		}
		for _, uid := range left {
			p.removals.Go(func() { p.remove(ctx, workers, uid) })
		}
		pause := runtime.Unprompted(p.opts.Runtime, cleanInterval)
		if since = cmp.Or(since, time.Now()); len(left) > 0 {
			pause = pauseBetweenLooks(time.Since(since))
		} else {
			since = time.Time{}
		}
		if !p.removeGone(ctx, workers, pause, soonest) {
			return
		}
	}
}

// Of many pods that end at the same time, the remains of removalsAtOnce are removed at once, so that the
// processor stops the containers of the other pods first. A removal waits for its turn for removalPatience
// at most, because a hung removal must not delay others for longer.
const (
	removalsAtOnce  = 16
	removalPatience = 2 * time.Second
)

// removeGone removes the remains of the pods in gone until cleaning asks for a look or pause is
// over, but at least until soonest: a look reads every pod, and of many pods that end at the same time
// each may ask for a look. The result is false if ctx has ended.
func (p *Pods) removeGone(ctx context.Context, workers Workers, pause time.Duration, soonest time.Time) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	turns := make(chan struct{}, removalsAtOnce)
	for {
		select {
		case <-p.gone.Signal():
			for _, uid := range p.gone.Take() {
				p.removals.Go(func() {
					bigstack.Grow()
					select {
					case turns <- struct{}{}:
						defer func() { <-turns }()
					case <-time.After(removalPatience):
					}
					if !p.remove(ctx, workers, uid) {
						p.cleaning.Notify()
					}
				})
			}
		case <-p.cleaning:
			timer.Reset(time.Until(soonest))
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// pauseBetweenLooks returns the pause after a look, when remains have been found for a while. Some
// removals take several looks. The runtime refuses others for a moment, for example if the death of
// an earlier agent interrupted the start of a container. So ten looks in 10 s come first, then
// longer intervals.
func pauseBetweenLooks(found time.Duration) time.Duration {
	return min(max(found/10, time.Second), cleanInterval)
}

// lookForLeftovers stops running pods that are unknown, and returns the pods with remains to
// remove.
func (p *Pods) lookForLeftovers(ctx context.Context, workers Workers) (left []types.UID, err error) {
	seen := make(map[types.UID]bool)
	add := func(uid types.UID) {
		if !seen[uid] {
			seen[uid] = true
			left = append(left, uid)
		}
	}
	listed, err := p.opts.Runtime.List(ctx, runtime.ListOptions{})
	for _, pod := range listed {
		switch {
		case workers.CouldHaveRunningContainers(pod.UID):
		case runs(pod):
			seen[pod.UID] = true
			_, stopErr := p.stopUnknown(ctx, pod.UID)
			err = errors.Join(err, stopErr)
		case workers.ShouldPodContentBeRemoved(pod.UID):
			add(pod.UID)
		}
	}
	for _, r := range p.records.all() {
		if r.life.Load() != lifeNow {
			add(r.uid) // the runtime may have no record of the pod any more
		}
	}
	onDisk, diskErr := runtime.PodsWithLogs(p.opts.Generator.LogRoot) // an agent may have died between two removals
	if p.opts.Volumes != nil {
		mounted, mountErr := p.opts.Volumes.PodsOnDisk()
		onDisk, diskErr = append(onDisk, mounted...), errors.Join(diskErr, mountErr)
	}
	for _, uid := range onDisk {
		if workers.ShouldPodContentBeRemoved(uid) {
			add(uid)
		}
	}
	return left, errors.Join(err, diskErr)
}

// runs reports whether the pod has a running container or a ready sandbox.
func runs(status *runtime.PodStatus) bool {
	return len(status.Running()) > 0 || status.Current() != nil
}

// nameTaken reports whether a static pod has to wait for an earlier pod of the same name. A
// previous agent started the earlier pod, and the manifest has changed since. Without the wait two
// instances of the service would run. nameTaken stops the earlier pod. For pods that this agent
// started, the workers compare names.
func (p *Pods) nameTaken(ctx context.Context, pod *v1.Pod, observed *runtime.PodStatus) (bool, error) {
	if observed.Current() != nil || !podfacts.IsStatic(pod) {
		return false, nil
	}
	listed, at := p.tracker.Pods()
	if at.IsZero() {
		var err error
		if listed, err = p.opts.Runtime.List(ctx, runtime.ListOptions{}); err != nil {
			return false, fmt.Errorf("look for an earlier pod of this name: %w", err)
		}
	}
	for _, other := range listed {
		if other.UID == pod.UID || other.Name != pod.Name || other.Namespace != pod.Namespace {
			continue
		}
		if stopping, err := p.stopUnknown(ctx, other.UID); stopping || err != nil {
			return stopping, err
		}
	}
	return false, nil
}

// stopUnknown asks the workers to stop a pod that only the runtime knows, with the longest grace
// period of its running containers. A listing may be stale, and does not have the grace periods.
// Therefore stopUnknown reads the pod. stopping is false if the pod does not run any more or is
// configured, and true before Run.
func (p *Pods) stopUnknown(ctx context.Context, uid types.UID) (stopping bool, err error) {
	status, err := p.read(ctx, uid)
	if err != nil {
		return false, err
	}
	if !runs(status) {
		p.cleaning.Notify() // what the pod has left is to be removed
		return false, nil
	}
	workers := p.workers.Load()
	if workers == nil {
		return true, nil
	}
	if stopping, err = (*workers).StopUnknown(uid, status.Namespace, status.Name, status.GracePeriod()); err != nil {
		err = fmt.Errorf("stop pod %s/%s, which is not configured: %w", status.Namespace, status.Name, err)
	}
	return stopping, err
}

// remove removes the remains of a pod that is gone, unless a call works on the pod, and reports
// whether nothing is left. While remove has the pod's turn no new life of the UID begins.
func (p *Pods) remove(ctx context.Context, workers Workers, uid types.UID) (done bool) {
	r := p.records.of(uid)
	select {
	case r.turn <- struct{}{}:
	default:
		return false
	}
	defer r.release()
	if !workers.ShouldPodContentBeRemoved(uid) {
		return false
	}
	err := p.removeRemains(ctx, r)
	if err == nil && p.opts.Volumes != nil {
		// CleanupOrphan leaves volumes that an earlier agent has mounted to a later call.
		if err = p.opts.Volumes.WaitForUnmount(ctx, uid); err == nil {
			err = p.opts.Volumes.CleanupOrphan(uid)
		}
	}
	switch changed := r.conclude(err); {
	case err != nil && changed && ctx.Err() == nil:
		p.opts.Logger.Warn("the remains of a pod cannot be removed", zap.String("podUID", string(uid)), zap.Error(err))
	case err == nil && r.life.Load() != lifeNow:
		p.records.drop(r)
		p.tracker.Observed(&runtime.PodStatus{UID: uid})
	}
	return err == nil
}
