// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// The functions of this file restore facts from the previous status that the runtime has forgotten:
// restart counts, last terminations, containers without a record.

// withoutRecord returns the status of a container without a record in the runtime: the container
// was not created yet, or the record is gone.
func (g *generator) withoutRecord(p *place) v1.ContainerStatus {
	status := v1.ContainerStatus{Name: p.spec.Name, Image: p.spec.Image}
	status.State.Waiting = &v1.ContainerStateWaiting{Reason: ReasonContainerCreating}
	if len(g.Pod.Spec.InitContainers) > 0 {
		status.State.Waiting.Reason = ReasonPodInitializing
	}
	old := p.old
	if old == nil {
		old = &v1.ContainerStatus{}
	}
	if waitsAfterEnd(old) { // old still describes the terminated instance
		waiting := status.State
		status = *old.DeepCopy()
		status.State = waiting
	}
	status.RestartCount = old.RestartCount
	status.LastTerminationState = *old.LastTerminationState.DeepCopy()
	ended := old.State.Terminated
	switch {
	case g.resetting && p.ref.Group != runtime.GroupEphemeral && (ended != nil || old.ContainerID != "" && !neverRan(old)):
		if status.ContainerID, status.ImageID = "", ""; ended != nil && ended.ContainerID == "" {
			break // no instance of this init container is known, and none is restarted
		}
		status.RestartCount++
		status.LastTerminationState.Terminated = &v1.ContainerStateTerminated{
			ExitCode: exitCodeUnknown, Reason: ReasonRestartingAll, Message: messageRemoved, ContainerID: old.ContainerID,
		}
	case ended != nil && g.runsAgain(p):
		status.LastTerminationState.Terminated = ended.DeepCopy()
	case ended != nil:
		kept := *old.DeepCopy()
		if neverRan(old) { // see isBack: without the ID of the later instance, its successor is not counted again
			kept.ContainerID, kept.ImageID = "", ""
		}
		return kept
	case p.plainInit() && g.initialized && !g.resetting:
		status.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason: runtime.ReasonCompleted, Message: messageInitRecordMissing, ContainerID: old.ContainerID,
		}}
		status.ContainerID, status.ImageID = old.ContainerID, old.ImageID
	case old.State.Running != nil && g.endsForGood(p, old):
		status.State = v1.ContainerState{Terminated: lost(old.ContainerID)}
		status.ContainerID, status.ImageID = old.ContainerID, old.ImageID
	case old.State.Running != nil && status.LastTerminationState.Terminated == nil:
		status.LastTerminationState.Terminated = lost(old.ContainerID)
		if g.mayStart() {
			status.RestartCount++
		}
	}
	return status
}

// endsForGood reports whether p is a regular container that ran, has no record and is not
// restarted. Such a container is terminated, not waiting.
func (g *generator) endsForGood(p *place, old *v1.ContainerStatus) bool {
	return g.mayStart() && p.ref.Group == runtime.GroupRegular && !restarts(g.Pod, p.spec, lost(old.ContainerID))
}

// waitsAfterEnd reports whether old shows a waiting container with the ID of the instance in its
// last state.
func waitsAfterEnd(old *v1.ContainerStatus) bool {
	last := old.LastTerminationState.Terminated
	return old.State.Waiting != nil && last != nil && last.ContainerID == old.ContainerID
}

// runsAgain reports whether the plain init container p, complete in the previous status, is to run
// again because its sandbox is gone.
func (g *generator) runsAgain(p *place) bool {
	if !g.starting || !p.plainInit() {
		return false
	}
	return !g.initPast(p.ref.Index)
}

// initPast reports whether an init container after index i was created in the current sandbox, so
// that the init container at i must be complete.
func (g *generator) initPast(i int) bool {
	for j := i + 1; j < len(g.Pod.Spec.InitContainers); j++ {
		if g.Observed.Active(g.Pod.Spec.InitContainers[j].Name) != nil {
			return true
		}
	}
	return false
}

// restartCount returns the count of the record or the higher count of the previous status. Records
// and log files may have been lost, and the count never decreases.
func (g *generator) restartCount(in *runtime.ContainerStatus, old *v1.ContainerStatus) int32 {
	switch {
	case old == nil || in.RestartCount > old.RestartCount:
		return in.RestartCount
	case old.ContainerID == in.ID.String(), old.ContainerID == "", !isNewer(in, old), neverRan(old), g.removedRunning(in, old):
		return old.RestartCount
	default: // a restart that is not counted in the record
		return old.RestartCount + 1
	}
}

// removedRunning reports whether in has the restart count of an instance that old shows running and
// that has no record. When in was numbered, the old instance had not run yet; the old instance
// started between that moment and its removal. A running instance removed by another program has
// left a log, so that its successor gets a higher count.
func (g *generator) removedRunning(in *runtime.ContainerStatus, old *v1.ContainerStatus) bool {
	return in.RestartCount == old.RestartCount && old.State.Running != nil &&
		!slices.ContainsFunc(g.Observed.Containers, func(c runtime.ContainerStatus) bool { return c.ID.String() == old.ContainerID })
}

// neverRan reports whether the newest instance in old was created and has not run. The termination
// in old belongs to an earlier instance.
func neverRan(old *v1.ContainerStatus) bool {
	ended := lastEnd(old)
	return old.ContainerID != "" && old.State.Running == nil && (ended == nil || ended.ContainerID != old.ContainerID)
}

// isBack reports whether the terminated instance in is the newest again. That happens when a later
// instance, which never ran or had just started, was removed and its successor is not created yet.
// The status keeps the ID of the later instance because the restart count includes the later
// instance.
func isBack(in *runtime.ContainerStatus, old *v1.ContainerStatus) bool {
	switch ended := lastEnd(old); {
	case in.State != runtime.StateExited:
		return false
	case old.State.Running != nil:
		return !isNewer(in, old)
	default:
		return neverRan(old) && ended != nil && ended.ContainerID == in.ID.String()
	}
}

// wasLost reports whether the runtime had lost the instance in old. (The kubelet counts the restart
// of a lost instance at once. Generate counts the restart when the new instance exists, so that the
// count does not depend on whether the exit of the lost instance is found.)
func wasLost(old *v1.ContainerStatus) bool {
	t := old.State.Terminated
	if t == nil {
		t = old.LastTerminationState.Terminated
	}
	return t != nil && t.Reason == ReasonStatusUnknown && t.ContainerID == old.ContainerID
}

// isNewer reports whether in was created after the start of the instance in old. isNewer is false
// for an observation older than the previous observation, and for the instance in the last state of
// old.
func isNewer(in *runtime.ContainerStatus, old *v1.ContainerStatus) bool {
	if last := old.LastTerminationState.Terminated; last != nil && last.ContainerID == in.ID.String() {
		return false
	}
	var began time.Time
	switch {
	case old.State.Running != nil:
		began = old.State.Running.StartedAt.Time
	case old.State.Terminated != nil:
		began = old.State.Terminated.StartedAt.Time
	}
	return !in.CreatedAt.Before(began)
}

// lastTermination returns the termination of the instance before the newest instance, from the
// record or else from the previous status. An older instance that never ran is skipped.
func (g *generator) lastTermination(p *place) *v1.ContainerStateTerminated {
	if before := g.lastExited(p.newest); before != nil {
		return terminated(p.spec, before)
	}
	old, id := p.old, p.newest.ID.String()
	if old == nil {
		return nil
	}
	last := old.LastTerminationState.Terminated
	if old.ContainerID != id && isNewer(p.newest, old) && !isBack(p.newest, old) {
		switch {
		case old.State.Terminated != nil:
			last = old.State.Terminated
		case old.State.Running != nil && !g.has(old.ContainerID):
			last = lost(old.ContainerID)
		}
	}
	if last == nil || last.ContainerID == id {
		return nil // no earlier instance, or the newest instance's own exit, shown as last state while waiting
	}
	return last.DeepCopy()
}

// has reports whether the runtime has a record of an instance. The exit of such an instance will be
// known.
func (g *generator) has(id string) bool {
	return slices.ContainsFunc(g.Observed.Containers, func(c runtime.ContainerStatus) bool { return c.ID.String() == id })
}

// lastExited returns the newest exited instance of in's container except in.
func (g *generator) lastExited(in *runtime.ContainerStatus) *runtime.ContainerStatus {
	for i := range g.Observed.Containers {
		c := &g.Observed.Containers[i]
		if c != in && c.Name == in.Name && c.State == runtime.StateExited {
			return c
		}
	}
	return nil
}
