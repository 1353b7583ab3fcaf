// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Invariants about the pods on the API server, as a client with a watch sees them.

// Stored is a version of a pod on the API server.
type Stored struct {
	At  time.Duration
	Pod *v1.Pod
}

// version identifies a Stored.
type version struct{ uid, resource string }

func versionOf(pod *v1.Pod) version { return version{string(pod.UID), pod.ResourceVersion} }

func (r *recorder) stored(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Stored = append(r.mu.Stored, Stored{r.world.Now(), pod})
}

// change edits a pod on the API server, as another client. The agent did not write that version. The server
// counts generations.
func (p *player) change(uid types.UID, edit func(*v1.Pod)) error {
	old := p.server.Get(uid)
	pod, err := p.server.Change(uid, func(pod *v1.Pod) {
		before := pod.DeepCopy()
		edit(pod)
		if !equality.Semantic.DeepEqual(before.Spec, pod.Spec) || (before.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) {
			pod.Generation++
		}
	})
	if err == nil && pod != old {
		p.node.history.changed(pod)
	}
	return err
}

func (r *recorder) changed(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Changed = append(r.mu.Changed, versionOf(pod))
}

// server judges each status that an agent wrote by the status before: a final phase, a start time and
// the conditions of other clients stay. Restart counts, generations and times of conditions do not go
// back. A pod ends when none of its containers runs.
func (c *checker) server() {
	others := make(map[version]bool)
	for _, v := range c.h.Changed {
		others[v] = true
	}
	last, changed := make(map[types.UID]*v1.Pod), make(map[types.UID]time.Duration)
	for _, s := range c.h.Stored {
		before := last[s.Pod.UID]
		last[s.Pod.UID] = s.Pod
		if others[versionOf(s.Pod)] || c.crossesAgents(s) {
			changed[s.Pod.UID] = s.At
			continue
		}
		// A patch under way crosses a change by another client.
		if at, is := changed[s.Pod.UID]; before == nil || podconfig.IsMirror(s.Pod) || is && s.At < c.awake(at)+toldLate {
			continue
		}
		c.written(s, &before.Status, &s.Pod.Status)
		if over(s.Pod.Status.Phase) && !over(before.Status.Phase) {
			c.nothingRuns(s.Pod.UID, s.At, "is told to have ended")
		}
	}
	c.deletions()
}

// crossesAgents reports whether a version may be that of a patch which an earlier agent sent before the
// present agent began. The present agent may not have seen it.
func (c *checker) crossesAgents(s Stored) bool {
	for _, r := range c.h.Requests {
		if r.Pod.UID == s.Pod.UID && r.Request == statusmanager.RequestPatch && r.At < s.At && s.At < r.At+toldLate && c.agentBetween(r.At+1, s.At) {
			return true
		}
	}
	return false
}

// awake returns the earliest time from which an agent could learn of a change at that time: a suspended
// agent continues later, with a patch that it made before.
func (c *checker) awake(at time.Duration) time.Duration {
	suspended := false
	for _, m := range c.h.Marks {
		switch {
		case m.Kind == MarkRemark:
		case m.At >= at && suspended:
			return m.At
		case m.At < at:
			suspended = m.Kind == MarkAgentSuspended
		}
	}
	return at
}

// written judges a status that an agent wrote by the status before.
func (c *checker) written(s Stored, before, now *v1.PodStatus) {
	bad := func(format string, args ...any) {
		c.violate(s.At, "on the API server, %s (%s): "+format, slices.Concat([]any{s.Pod.Name, s.Pod.UID}, args)...)
	}
	if over(before.Phase) && now.Phase != before.Phase || before.Phase == v1.PodRunning && now.Phase == v1.PodPending {
		bad("the phase goes from %s to %s", before.Phase, now.Phase)
	}
	if before.StartTime != nil && !before.StartTime.Equal(now.StartTime) {
		bad("the start time goes from %v to %v", before.StartTime, now.StartTime)
	}
	if now.ObservedGeneration < before.ObservedGeneration {
		bad("the observed generation goes from %d to %d", before.ObservedGeneration, now.ObservedGeneration)
	}
	was, is := conditionsOf(before), conditionsOf(now)
	if len(is) < len(now.Conditions) {
		bad("a condition stands twice in %v", now.Conditions)
	}
	for kind, old := range was {
		switch c, there := is[kind]; {
		case isGate(s.Pod, kind) && c != old:
			bad("condition %s of another client becomes %+v", kind, c)
		case there && c.LastTransitionTime.Before(&old.LastTransitionTime):
			bad("the last transition of condition %s goes from %v to %v", kind, old.LastTransitionTime, c.LastTransitionTime)
		case there && c.Status == old.Status && !c.LastTransitionTime.Equal(&old.LastTransitionTime) && !c.LastTransitionTime.After(old.LastTransitionTime.Time):
			bad("condition %s stays %s, and its last transition goes from %v to %v", kind, c.Status, old.LastTransitionTime, c.LastTransitionTime)
		}
	}
	for _, lists := range [][2][]v1.ContainerStatus{{before.InitContainerStatuses, now.InitContainerStatuses}, {before.ContainerStatuses, now.ContainerStatuses}} {
		for i := range lists[1] {
			status := &lists[1][i]
			if old := containerStatus(&v1.PodStatus{ContainerStatuses: lists[0]}, status.Name); old != nil && status.RestartCount < old.RestartCount {
				bad("the restart count of %s goes from %d to %d", status.Name, old.RestartCount, status.RestartCount)
			}
		}
	}
}

// nothingRuns judges that no instance of a pod runs, except an instance that a crashed agent has started.
func (c *checker) nothingRuns(uid types.UID, at time.Duration, what string) {
	for _, i := range c.instances {
		if i.uid == uid && i.called >= 0 && i.started < at && i.exited > at && !c.unheeded(i) {
			c.violate(at, "%s %s, and %s (%s) runs", uid, what, i.id, i.name)
		}
	}
}

// deletions checks that an agent removes a pod from the API server only after a client has deleted
// the pod. At the removal the API server has the end of the pod, no container runs, and no volume
// is left.
func (c *checker) deletions() {
	for _, r := range c.h.Requests {
		if r.Request != statusmanager.RequestDelete || !r.Changed {
			continue
		}
		at, uid := r.At+r.Took, r.Pod.UID
		var pod *v1.Pod
		for _, s := range c.h.Stored {
			if s.Pod.UID == uid && s.At <= at {
				pod = s.Pod
			}
		}
		switch {
		case pod == nil || podconfig.IsMirror(pod):
			continue
		case pod.DeletionTimestamp == nil:
			c.violate(at, "%s is removed from the API server, and no client has deleted it", uid)
		case !over(pod.Status.Phase):
			c.violate(at, "%s is removed from the API server, which has phase %s", uid, pod.Status.Phase)
		}
		if err := allEnded(&pod.Status); err != nil {
			c.violate(at, "%s is removed from the API server: %v", uid, err)
		}
		c.nothingRuns(uid, at, "is removed from the API server")
		ready := make(map[string]bool)
		for _, e := range c.h.Volumes {
			if e.UID == uid && e.At <= at {
				ready[e.Volume] = e.What != VolumeGone && (e.What == VolumeReady || ready[e.Volume])
			}
		}
		for volume, is := range ready {
			if is {
				c.violate(at, "%s is removed from the API server, and its volume %s is left", uid, volume)
			}
		}
	}
}

// allEnded checks that a status shows the end of each regular container if one has begun, and of each init container up to
// the last that has begun.
func allEnded(status *v1.PodStatus) error {
	has := func(s v1.ContainerStatus) bool {
		return s.State.Waiting == nil || s.LastTerminationState.Terminated != nil
	}
	begun := slices.ContainsFunc(status.ContainerStatuses, has)
	last := len(status.InitContainerStatuses) - 1
	for last >= 0 && !has(status.InitContainerStatuses[last]) {
		last--
	}
	for i, s := range slices.Concat(status.InitContainerStatuses[:last+1], status.ContainerStatuses) {
		if ended := s.State.Terminated != nil; !ended && (i <= last || begun) || ended && (s.Ready || s.Started == nil || *s.Started) {
			return fmt.Errorf("the status of container %s is %+v", s.Name, s)
		}
	}
	return nil
}
