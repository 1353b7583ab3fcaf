// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// This file is about what the runtime has forgotten and the previous status
// still knows: restart counts, last terminations, containers without a record.

// withoutRecord is the status of a container of which the runtime has no record:
// it was not made yet, or its record is gone.
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
	if waitsAfterEnd(old) { // still about the instance that ended
		waiting := status.State
		status = *old.DeepCopy()
		status.State = waiting
	}
	status.RestartCount = old.RestartCount
	status.LastTerminationState = *old.LastTerminationState.DeepCopy()
	ended := old.State.Terminated
	switch {
	case g.resetting && p.ref.Group != runtime.GroupEphemeral && (ended != nil || old.State.Running != nil || old.ContainerID != ""):
		status.RestartCount++
		status.ContainerID, status.ImageID = "", ""
		status.LastTerminationState.Terminated = &v1.ContainerStateTerminated{
			ExitCode: exitCodeUnknown, Reason: ReasonRestartingAll, Message: messageRemoved, ContainerID: old.ContainerID,
		}
	case ended != nil && g.runsAgain(p):
		status.LastTerminationState.Terminated = ended.DeepCopy()
	case ended != nil:
		kept := *old.DeepCopy()
		kept.ContainerID = cmp.Or(ended.ContainerID, old.ContainerID) // see isBack
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

// endsForGood reports whether p, a regular container that ran and whose record is gone,
// is not started again: then it has ended, and waits for nothing.
func (g *generator) endsForGood(p *place, old *v1.ContainerStatus) bool {
	return g.mayStart() && p.ref.Group == runtime.GroupRegular && !g.restarts(p.spec, lost(old.ContainerID))
}

// waitsAfterEnd reports whether old shows a waiting container under the ID of
// the instance whose end has become its last state.
func waitsAfterEnd(old *v1.ContainerStatus) bool {
	last := old.LastTerminationState.Terminated
	return old.State.Waiting != nil && old.ContainerID != "" && last != nil && last.ContainerID == old.ContainerID
}

// runsAgain reports whether plain init container p, which is complete by the
// previous status, is to run again since the sandbox it ran in is gone.
func (g *generator) runsAgain(p *place) bool {
	if !g.starting || !p.plainInit() {
		return false
	}
	return !g.initPast(p.ref.Index)
}

// initPast reports whether an init container after number i was made in the
// current sandbox, so that i must be complete.
func (g *generator) initPast(i int) bool {
	for j := i + 1; j < len(g.Pod.Spec.InitContainers); j++ {
		if g.Observed.Active(g.Pod.Spec.InitContainers[j].Name) != nil {
			return true
		}
	}
	return false
}

// restartCount is what the record says, unless the previous status knows of
// more: records and log files may have been lost, and the count never goes back.
func (g *generator) restartCount(in *runtime.ContainerStatus, old *v1.ContainerStatus) int32 {
	switch {
	case old == nil || in.RestartCount > old.RestartCount:
		return in.RestartCount
	case old.ContainerID == in.ID.String(), old.ContainerID == "", !isNewer(in, old), tookPlace(in, old), g.removedRunning(in, old), isBack(in, old):
		return old.RestartCount
	default: // a restart that the record does not know to be one
		return old.RestartCount + 1
	}
}

// tookPlace reports whether in has the number that old counts already for an
// instance that was made and never ran: in takes its place, and nothing was
// restarted.
func tookPlace(in *runtime.ContainerStatus, old *v1.ContainerStatus) bool {
	return in.RestartCount == old.RestartCount && neverRan(old)
}

// removedRunning reports whether in has the number of one that old shows running and
// of which there is no record: it was removed before it ran, as far as whoever numbered
// in could see, and began to run meanwhile. A running one that somebody else removes has
// left its log, so that its successor's number is higher.
func (g *generator) removedRunning(in *runtime.ContainerStatus, old *v1.ContainerStatus) bool {
	return in.RestartCount == old.RestartCount && old.State.Running != nil &&
		!slices.ContainsFunc(g.Observed.Containers, func(c runtime.ContainerStatus) bool { return c.ID.String() == old.ContainerID })
}

// neverRan reports whether the newest instance that old knows, and counts, was
// made and did not run yet: what old shows as ended is another one.
func neverRan(old *v1.ContainerStatus) bool {
	ended := lastEnd(old)
	return old.ContainerID != "" && old.State.Running == nil && (ended == nil || ended.ContainerID != old.ContainerID)
}

// isBack reports whether in, which has ended, is the newest again since a later
// instance was removed before its successor is made: one that never ran, or had just
// begun to. The status goes on naming the later one: it counts it.
func isBack(in *runtime.ContainerStatus, old *v1.ContainerStatus) bool {
	switch ended := lastEnd(old); {
	case in.State != runtime.StateExited:
		return false
	case old.State.Running != nil:
		return old.ContainerID != in.ID.String() && !isNewer(in, old)
	default:
		return neverRan(old) && ended != nil && ended.ContainerID == in.ID.String()
	}
}

// wasLost reports whether old is about an instance that was lost sight of. (The
// kubelet counts its restart then and there; here it counts when there is one, so
// that the count is the same whether or not somebody finds out how it has ended.)
func wasLost(old *v1.ContainerStatus) bool {
	t := old.State.Terminated
	if t == nil && old.State.Waiting != nil {
		t = old.LastTerminationState.Terminated
	}
	return t != nil && t.Reason == ReasonStatusUnknown && t.ContainerID == old.ContainerID
}

// isNewer reports whether in was made after the instance that old tells of had
// started. It is false for an observation that is behind the previous one.
func isNewer(in *runtime.ContainerStatus, old *v1.ContainerStatus) bool {
	var began time.Time
	switch {
	case old.State.Running != nil:
		began = old.State.Running.StartedAt.Time
	case old.State.Terminated != nil:
		began = old.State.Terminated.StartedAt.Time
	}
	return !in.CreatedAt.Before(began)
}

// lastTermination is how the instance before the newest one ended: by its own
// record, else by the previous status. An older instance that never ran is
// skipped.
func (g *generator) lastTermination(p *place) *v1.ContainerStateTerminated {
	if before := g.lastExited(p.newest); before != nil {
		return terminated(before)
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
		return nil // there was none, or it is this one's own, shown while it waited
	}
	return last.DeepCopy()
}

// has reports whether the runtime has a record of an instance: however long that
// still runs, its end will be known.
func (g *generator) has(id string) bool {
	return slices.ContainsFunc(g.Observed.Containers, func(c runtime.ContainerStatus) bool { return c.ID.String() == id })
}

// lastExited returns the newest exited instance of in's container but in.
func (g *generator) lastExited(in *runtime.ContainerStatus) *runtime.ContainerStatus {
	for i := range g.Observed.Containers {
		c := &g.Observed.Containers[i]
		if c != in && c.Name == in.Name && c.State == runtime.StateExited {
			return c
		}
	}
	return nil
}
