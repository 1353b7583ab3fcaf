// SPDX-License-Identifier: Apache-2.0

// Package shutdown stops the pods of a node at the end of the agent: all at once, or by priority as
// in the kubelet's graceful node shutdown (KEP-2000 and KEP-2712, as in 1.36).
package shutdown

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
)

// Options configure a Stopper.
type Options struct {
	// Classes makes the Stopper stop the pods one priority class after another. Defaults to none:
	// all pods stop at once.
	Classes []Class
	// Timeout limits the wait for pods that stop at once. Defaults to 0, no limit.
	Timeout time.Duration
	// Unmount waits until the volumes of a stopped pod are unmounted. Defaults to nil: there are no
	// volumes.
	Unmount func(ctx context.Context, uid types.UID) error
}

// Stopper implements feature.Stopper.
type Stopper struct {
	host *feature.Host
	opts Options
}

// New returns a Stopper for the pods of a host.
func New(h *feature.Host, o Options) *Stopper { return &Stopper{h, o} }

// Stop implements feature.Stopper. Stop stops all pods at the same time, each within the pod's
// grace period: desired pods, terminating pods, and pods known to the runtime only. Stop returns
// when no pod runs any more, or after Options.Timeout. With Options.Classes, stopInOrder stops the
// pods instead.
func (s *Stopper) Stop(ctx context.Context) {
	s.host.Log.Info("stopping the pods")
	if len(s.opts.Classes) > 0 {
		s.stopInOrder(ctx)
		return
	}
	if s.opts.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, s.opts.Timeout, errOutOfTime)
		defer cancel()
		ctx = limited
	}
	var wg sync.WaitGroup
	for _, pod := range s.host.AdmittedPods() {
		wg.Go(func() { s.stopPod(ctx, pod) })
	}
	for uid := range s.host.Workers.All() {
		if _, wanted := s.host.Desired(uid); wanted && s.host.MayRun(uid) {
			continue
		}
		wg.Go(func() { // the pod is terminating already
			select {
			case <-s.host.Workers.Terminated(uid):
			case <-ctx.Done():
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		s.host.Log.Warn("the time for stopping the pods is over; pods that still run are left running")
		return
	}
	// The remaining pods are unknown to the workers, because the sources did not deliver their pods
	// before the shutdown.
	left, err := s.host.Runtime.List(ctx, runtime.ListOptions{RunningOnly: true})
	if err != nil {
		s.host.Log.Error("cannot look for pods that still run", zap.Error(err))
		return
	}
	for _, status := range left {
		wg.Go(func() {
			r := s.host.Manager.KillPod(ctx, runtime.KillRequest{UID: status.UID})
			if err := r.Err(); err != nil {
				s.host.Log.Error("could not stop a pod", zap.String("podUID", string(status.UID)), zap.Error(err))
			}
		})
	}
	wg.Wait()
	s.host.Log.Info("all pods are stopped")
	s.unmountStopped(ctx)
}

// giveBackPatience is how long the end of the agent waits for volumes.
const giveBackPatience = 10 * time.Second

// unmountStopped waits until the volumes of stopped pods are unmounted, because no process unmounts them
// after the agent's end.
func (s *Stopper) unmountStopped(ctx context.Context) {
	if s.opts.Unmount == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, giveBackPatience)
	defer cancel()
	var wg sync.WaitGroup
	for uid := range s.host.Workers.All() {
		wg.Go(func() {
			if err := s.opts.Unmount(ctx, uid); err != nil {
				s.host.Log.Warn("volumes of a stopped pod are left for the next start", zap.String("podUID", string(uid)), zap.Error(err))
			}
		})
	}
	wg.Wait()
}

func (s *Stopper) stopPod(ctx context.Context, pod *v1.Pod) {
	if err := s.host.Workers.KillPod(ctx, pod, podworkers.KillOptions{Status: podworkers.Interrupted}); err != nil {
		s.host.Log.Error("could not stop a pod", feature.PodField(pod), zap.Error(err))
	}
}
