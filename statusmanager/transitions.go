// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/restartrule"
)

// clamp is a part of a status that was reverted, because the change would undo a final state.
type clamp struct {
	// Container is the name of an ended container that may not run again; empty for the phase of
	// the pod.
	Container string
	// From is the kept value and To the refused value: phases, or "terminated" and "running" or
	// "waiting".
	From, To string
}

// TransitionError lists the reverted parts of a status. All other parts of the status were
// accepted.
type TransitionError struct {
	Pod    types.NamespacedName
	UID    types.UID
	Clamps []clamp
}

func (e *TransitionError) Error() string {
	parts := make([]string, len(e.Clamps))
	for i, c := range e.Clamps {
		what := "phase"
		if c.Container != "" {
			what = "container " + c.Container
		}
		parts[i] = fmt.Sprintf("%s stays %s, not %s", what, c.From, c.To)
	}
	return fmt.Sprintf("statusmanager: illegal transition of pod %s: %s", e.Pod, strings.Join(parts, "; "))
}

// clampContainers reverts every container in status that terminated in old and may not be restarted
// by its rules. clampContainers writes to the slices of status. The kubelet drops the whole status
// instead, and freezes the pod.
func clampContainers(spec *v1.PodSpec, old, status *v1.PodStatus) []clamp {
	var clamps []clamp
	eachRevived(spec, old, status, func(was, now *v1.ContainerStatus) {
		clamps = append(clamps, clamp{Container: was.Name, From: "terminated", To: stateName(&now.State)})
		*now = *was.DeepCopy()
		now.Ready, now.Started = false, new(bool)
	})
	return clamps
}

// Revives reports whether status undoes the end of a container: the container terminated in old,
// may not be restarted by the rules of spec, and waits or runs in status. API servers (1.36) refuse
// such a status. Only a pod object that never showed the end can show the container again, so the
// mirror pod of a static pod that starts again has to be replaced. Revives writes to no argument.
func Revives(spec *v1.PodSpec, old, status *v1.PodStatus) (revives bool) {
	eachRevived(spec, old, status, func(_, _ *v1.ContainerStatus) { revives = true })
	return revives
}

// eachRevived calls f for every container in status that terminated in old and may not be restarted
// by its rules. f may write to now, an element of a slice of status.
func eachRevived(spec *v1.PodSpec, old, status *v1.PodStatus, f func(was, now *v1.ContainerStatus)) {
	if restartrule.MayRestartAll(spec) {
		return
	}
	each := func(before, now []v1.ContainerStatus, again func(name string, ended *v1.ContainerStateTerminated) bool) {
		for i := range now {
			was := podfacts.ContainerStatus(before, now[i].Name)
			if was != nil && was.State.Terminated != nil && now[i].State.Terminated == nil &&
				!again(was.Name, was.State.Terminated) {
				f(was, &now[i])
			}
		}
	}
	again := func(name string, ended *v1.ContainerStateTerminated) bool { return restarts(spec, name, ended) }
	each(old.ContainerStatuses, status.ContainerStatuses, again)
	if !startsOver(spec, old, status) {
		each(old.InitContainerStatuses, status.InitContainerStatuses, again) // a sidecar's own policy is Always
	}
	each(old.EphemeralContainerStatuses, status.EphemeralContainerStatuses, func(string, *v1.ContainerStateTerminated) bool { return false })
}

// startsOver reports whether status may belong to a pod that has lost its sandbox. In the next
// sandbox init runs again from the first container, whatever the earlier results, as long as a
// regular container is still to run. A running regular container proves that init is done.
// startsOver must be called after regular containers were clamped.
func startsOver(spec *v1.PodSpec, old, status *v1.PodStatus) bool {
	if len(spec.InitContainers) == 0 || podfacts.IsTerminal(old.Phase) {
		return false
	}
	due := false
	for i := range status.ContainerStatuses {
		s := &status.ContainerStatuses[i]
		switch ended := s.State.Terminated; {
		case s.State.Running != nil:
			return false
		case ended == nil, restarts(spec, s.Name, ended):
			due = true
		}
	}
	return due
}

// stateName returns the name of a state other than terminated.
func stateName(s *v1.ContainerState) string {
	if s.Running != nil {
		return "running"
	}
	return "waiting"
}

// clampPhase keeps the phase of status from moving backwards. An empty phase means no change.
func clampPhase(old, status *v1.PodStatus) []clamp {
	switch {
	case status.Phase == "" && old.Phase == "":
		status.Phase = v1.PodPending
		return nil
	case status.Phase == "":
		status.Phase, status.Reason, status.Message = old.Phase, old.Reason, old.Message
		return nil
	case !movesBack(old.Phase, status.Phase):
		return nil
	}
	c := clamp{From: string(old.Phase), To: string(status.Phase)}
	status.Phase, status.Reason, status.Message = old.Phase, old.Reason, old.Message
	return []clamp{c}
}

// movesBack reports whether a pod cannot go from phase from to phase to. No phase follows a
// terminal phase, and Running never becomes Pending. Every other change is possible, also from and
// to Unknown.
func movesBack(from, to v1.PodPhase) bool {
	return podfacts.IsTerminal(from) && to != from || from == v1.PodRunning && to == v1.PodPending
}
