// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
)

// cleanForever looks for remains of pods when Synced closes, when clean is called, and every
// cleanInterval.
func (p *Pods) cleanForever(ctx context.Context, workers Workers) {
	var removals sync.WaitGroup
	defer removals.Wait()
	select {
	case <-workers.Synced():
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(cleanInterval)
	defer tick.Stop()
	var next nextLook
	failed := complaint{log: p.opts.Logger, what: "cannot look for remains of pods"}
	for {
		left, err := p.lookForLeftovers(ctx, workers)
		failed.say(ctx, err)
		for _, uid := range left {
			removals.Go(func() { p.remove(ctx, workers, uid) })
		}
		next.plan(len(left))
		select {
		case <-p.cleaning:
		case <-tick.C:
		case <-next.at:
			next.at = nil
		case <-ctx.Done():
			return
		}
	}
}

// nextLook is the time of the next unprompted look for remains of pods.
type nextLook struct {
	at    <-chan time.Time // nil: nothing was left, or the time has come
	since time.Time        // when remains were found first; zero: nothing was left
}

// plan plans the next look after a look that found left pods. Some removals take several looks. The
// runtime refuses others for a moment, for example if the death of an earlier agent interrupted the
// start of a container. While remains are found, plan plans ten looks in 10 s and longer intervals
// later. A prompted look in between does not delay the next planned look.
func (l *nextLook) plan(left int) {
	switch {
	case left == 0:
		*l = nextLook{}
	case l.at == nil:
		if l.since.IsZero() {
			l.since = time.Now()
		}
		l.at = time.After(min(max(time.Since(l.since)/10, time.Second), cleanInterval))
	}
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
	logged, logsErr := runtime.PodsWithLogs(p.opts.Generator.LogRoot) // an agent may have died between two removals
	for _, uid := range logged {
		if workers.ShouldPodContentBeRemoved(uid) {
			add(uid)
		}
	}
	if err = errors.Join(err, logsErr); p.opts.Volumes == nil {
		return left, err
	}
	// CleanupOrphans adds to left. Go does not say whether a return statement reads left before or
	// after a call in the statement.
	err = errors.Join(err, p.opts.Volumes.CleanupOrphans(ctx, func(uid types.UID) bool {
		if workers.ShouldPodContentBeRemoved(uid) {
			add(uid)
		}
		return true // remove deletes the directories, with the pod's turn
	}))
	return left, err
}

// runs reports whether the pod has a running container or a ready sandbox.
func runs(status *runtime.PodStatus) bool {
	return len(status.Running()) > 0 || status.Current() != nil
}

// stopUnknown asks the workers to stop a pod that only the runtime knows, with the longest grace
// period of its running containers. A listing may be stale and lacks the grace periods, so that
// stopUnknown reads the pod. stopping is false if the pod does not run any more or is configured, and
// true before Run.
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
	grace := runtime.MinGracePeriod
	for _, c := range status.Running() {
		pod, container := runtime.RestorePod(status, c)
		grace = max(grace, runtime.GracePeriod(pod, container, runtime.KillPodTerminating))
	}
	if stopping, err = (*workers).StopUnknown(uid, status.Namespace, status.Name, grace); err != nil {
		err = fmt.Errorf("stop pod %s/%s, which is not configured: %w", status.Namespace, status.Name, err)
	}
	return stopping, err
}

// remove removes the remains of a pod that is gone, unless a call works on the pod. While remove
// has the pod's turn no new life of the UID begins.
func (p *Pods) remove(ctx context.Context, workers Workers, uid types.UID) {
	r := p.records.of(uid)
	select {
	case r.turn <- struct{}{}:
	default:
		return
	}
	defer r.release()
	if !workers.ShouldPodContentBeRemoved(uid) {
		return
	}
	err := p.removeRemains(ctx, uid)
	if err == nil && p.opts.Volumes != nil {
		err = p.opts.Volumes.CleanupOrphans(ctx, func(other types.UID) bool { return other != uid })
	}
	switch changed := r.conclude(err); {
	case err != nil && changed && ctx.Err() == nil:
		p.opts.Logger.Warn("cannot remove what a pod has left", zap.String("podUID", string(uid)), zap.Error(err))
	case err == nil && r.life.Load() != lifeNow:
		p.records.drop(r)
	}
}
