// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// syncer is what happens to one pod. podworkers calls it, never twice at once
// for one pod.
type syncer struct {
	agent *Agent

	mu struct {
		sync.Mutex
		failures map[types.UID]runtime.StartFailures
	}
}

func newSyncer(a *Agent) *syncer {
	s := &syncer{agent: a}
	s.mu.failures = make(map[types.UID]runtime.StartFailures)
	return s
}

// SyncPod brings the pod nearer to its spec and says so in its status. It is
// over when the pod's phase is.
func (s *syncer) SyncPod(ctx context.Context, r podworkers.SyncRequest) (terminal bool, err error) {
	a, pod := s.agent, r.Pod
	if err := a.collector.settled(ctx, pod.UID); err != nil {
		return false, err
	}
	observed, err := a.runtime.PodStatus(ctx, pod.UID)
	if err != nil {
		return false, fmt.Errorf("read the pod from the runtime: %w", err)
	}
	if over := s.publish(pod, observed, podstatus.StageSync, nil); over {
		return true, nil
	}
	if err := a.volumes.setUp(pod); err != nil {
		return false, err
	}
	result := a.manager.SyncPod(ctx, runtime.SyncRequest{
		Pod:        pod,
		Status:     observed,
		RestartAll: runtime.RestartAllTriggered(pod, observed),
	})
	s.note(pod.UID, result.Steps)
	if result.Status != nil {
		terminal = s.publish(pod, result.Status, podstatus.StageSync, nil)
	}
	return terminal && result.Err() == nil, retry(&result, r.Attempt)
}

// quickRetries is how often a sandbox that could not be made is tried again
// soon: after a crash of the agent the runtime may still be at work on it.
const quickRetries = 5

// retry says when a sync that failed is worth another try.
func retry(result *runtime.Result, attempt int) error {
	err := result.Err()
	if at, ok := result.RetryAt(); ok {
		return podworkers.RetryAfter(err, at)
	}
	if errors.Is(err, runtime.ErrCreatePodSandbox) && attempt < quickRetries {
		return errors.Join(err, podworkers.ErrTransient)
	}
	return err
}

// SyncTerminatingPod stops the pod, and returns nil only when the runtime says
// that nothing of it runs.
func (s *syncer) SyncTerminatingPod(ctx context.Context, r podworkers.TerminatingRequest) error {
	a, pod := s.agent, r.Pod
	observed, err := a.runtime.PodStatus(ctx, pod.UID)
	if err != nil {
		return fmt.Errorf("read the pod from the runtime: %w", err)
	}
	s.publish(pod, observed, podstatus.StageTerminating, r.ApplyStatus)
	grace := time.Duration(r.GracePeriodSeconds) * time.Second
	result := a.manager.KillPod(ctx, runtime.KillRequest{Pod: pod, Status: observed, Grace: &grace})
	if err := result.Err(); err != nil {
		return err
	}
	if running := result.Status.Running(); len(running) > 0 {
		return fmt.Errorf("container %s is still %s after it was stopped", running[0].Name, running[0].State)
	}
	s.publish(pod, result.Status, podstatus.StageTerminated, r.ApplyStatus)
	return nil
}

// SyncTerminatedPod gives back what the pod held.
func (s *syncer) SyncTerminatedPod(_ context.Context, r podworkers.SyncRequest) error {
	s.mu.Lock()
	delete(s.mu.failures, r.Pod.UID)
	s.mu.Unlock()
	return s.agent.volumes.tearDown(r.Pod.UID)
}

// SyncTerminatingOrphan stops a pod that only the runtime knows.
func (s *syncer) SyncTerminatingOrphan(ctx context.Context, o podworkers.Orphan, gracePeriodSeconds int64) error {
	grace := time.Duration(gracePeriodSeconds) * time.Second
	result := s.agent.manager.KillPod(ctx, runtime.KillRequest{UID: o.UID, Grace: &grace})
	if err := result.Err(); err != nil {
		return err
	}
	if len(result.Status.Running()) > 0 {
		return errors.New("containers still run after they were stopped")
	}
	s.agent.poke()
	return nil
}
