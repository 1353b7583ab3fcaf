// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// publish computes a pod's status from what was observed and lets the world
// know. apply, if any, has the last word on how a pod ends. It reports whether
// the pod has run its course.
func (s *syncer) publish(pod *v1.Pod, observed *runtime.PodStatus, stage podstatus.Stage, apply func(*v1.PodStatus)) (over bool) {
	status := s.generate(pod, observed, stage)
	if apply != nil {
		apply(&status)
	}
	s.agent.statuses.set(pod, status)
	s.agent.memory.note(pod)
	s.agent.watchDeadline(pod, &status, stage)
	return isOver(status.Phase)
}

// progress publishes what a sync has come to so far. That a container or the whole
// pod has run its course may be the sync's own doing, which has stopped what is not as
// it should be and is about to start it again. An API server that is told of such an
// end holds on to it: it is said when the sync has ended, if it is still true.
func (s *syncer) progress(pod *v1.Pod, p runtime.Progress) {
	before := s.agent.statuses.get(pod)
	status := s.generate(pod, p.Status, podstatus.StageSync)
	if isOver(status.Phase) {
		return
	}
	for i := range status.ContainerStatuses {
		ended := &status.ContainerStatuses[i]
		if ended.State.Terminated == nil || !slices.Contains(p.Restarting, ended.Name) {
			continue
		}
		for j := range before.ContainerStatuses {
			if was := &before.ContainerStatuses[j]; was.Name == ended.Name && was.ContainerID == ended.ContainerID {
				*ended = *was.DeepCopy()
			}
		}
	}
	s.agent.statuses.set(pod, status)
	s.agent.watchDeadline(pod, &status, podstatus.StageSync)
}

// generate computes a pod's status.
func (s *syncer) generate(pod *v1.Pod, observed *runtime.PodStatus, stage podstatus.Stage) v1.PodStatus {
	previous := s.agent.statuses.get(pod)
	previous.StartTime = s.agent.startedAt(&previous, pod, observed)
	input := podstatus.Input{
		Pod:           s.agent.declarations.uphold(pod),
		Observed:      observed,
		Previous:      &previous,
		Now:           time.Now(),
		Stage:         stage,
		StartFailures: s.startFailures(pod.UID),
		HostIPs:       s.agent.opts.HostIPs,
		Resizing:      s.resizing(pod.UID),
		Actuated: func(id runtime.ContainerID) (v1.ResourceRequirements, bool) {
			return s.agent.manager.Actuated(pod.UID, id)
		},
		Started: s.agent.probes.started,
		Ready:   s.agent.probes.ready,
	}
	if stage == podstatus.StageSync {
		input.Override = s.agent.overdue(pod, &previous)
		input.ResizePending = s.agent.gate.resizePending(pod.UID)
	}
	status := podstatus.Generate(input)
	if stage == podstatus.StageSync {
		s.agent.probes.sync(s.agent.memory.recall(pod), &status) // also without probes: it may have had some
		if probed(pod) {
			status = podstatus.Generate(input) // with what was known of containers that are taken over
		}
	}
	s.explain(&status, pod.UID)
	return status
}

// explain says why nothing happens, where the containers themselves cannot: the
// last call for the pod failed before it came to them.
func (s *syncer) explain(status *v1.PodStatus, uid types.UID) {
	text := s.agent.failures.last(uid)
	if text == "" {
		return
	}
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			w := list[i].State.Waiting
			if w != nil && w.Message == "" && (w.Reason == "ContainerCreating" || w.Reason == "PodInitializing") {
				w.Message = text
			}
		}
	}
}

// note remembers which containers could not be started, and why.
func (s *syncer) note(uid types.UID, steps []runtime.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.mu.failures[uid]
	f.Apply(steps)
	if len(f) == 0 {
		delete(s.mu.failures, uid)
		return
	}
	s.mu.failures[uid] = f
}

func (s *syncer) startFailures(uid types.UID) runtime.StartFailures {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.mu.failures[uid])
}
