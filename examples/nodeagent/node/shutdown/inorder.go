// SPDX-License-Identifier: Apache-2.0

package shutdown

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

// stopInOrder stops the pods one class after another. If the pods of a class end early, the next
// class begins at once. If the time of a class ends first, the next class begins too. stopInOrder
// returns when the sum of all times has passed.
func (s *Stopper) stopInOrder(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeOf(s.opts.Classes), errOutOfTime)
	defer cancel()
	wanted := s.host.AdmittedPods()
	// After this call, pods unknown to the workers count as gone.
	s.host.Workers.Retain(wanted)
	strangers := s.strangers(ctx, wanted)
	done := true
	for _, g := range plan(s.opts.Classes, wanted, strangers) {
		done = s.stopGroup(ctx, g) && done
	}
	if done {
		s.host.Log.Info("all pods are stopped")
	}
	s.unmountStopped(ctx)
}

// strangers returns the running and terminating pods that no source lists.
func (s *Stopper) strangers(ctx context.Context, wanted []*v1.Pod) (uids []types.UID) {
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
	for uid := range s.host.Workers.All() {
		add(uid)
	}
	running, err := s.host.Runtime.List(ctx, runtime.ListOptions{RunningOnly: true})
	if err != nil {
		s.host.Log.Error("cannot look for orphaned pods", zap.Error(err))
	}
	for _, status := range running {
		add(status.UID)
	}
	slices.Sort(uids)
	return uids
}

// stopGroup stops the pods of a group, and reports whether all ended within the group's time.
func (s *Stopper) stopGroup(ctx context.Context, g group) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, g.limit, errOutOfTime)
	defer cancel()
	s.host.Log.Info("stopping pods", zap.Int("pods", len(g.stops)), zap.Duration("within", g.limit))
	errs := make([]error, len(g.stops))
	var wg sync.WaitGroup
	for i, one := range g.stops {
		wg.Go(func() { errs[i] = s.stopOne(ctx, one) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			s.host.Log.Error("could not stop a pod", zap.String("podUID", string(g.stops[i].uid)), zap.Error(err))
		}
	}
	return errors.Join(errs...) == nil
}

func (s *Stopper) stopOne(ctx context.Context, one stop) error {
	kill := podworkers.KillOptions{GracePeriodSeconds: &one.grace, Status: podworkers.Interrupted}
	if one.pod != nil {
		return s.host.Workers.KillPod(ctx, one.pod, kill)
	}
	err := s.host.Workers.UpdatePod(podworkers.Update{
		Type: podworkers.UpdateKill, Orphan: &podworkers.Orphan{UID: one.uid}, Received: time.Now(),
		Kill: &kill,
	})
	if err != nil {
		return err
	}
	select {
	case <-s.host.Workers.Terminated(one.uid):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
