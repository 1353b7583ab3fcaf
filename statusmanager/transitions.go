// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Clamp is one part of a status that was not believed, because it would undo what is final.
type Clamp struct {
	// Container is the name of the container that ended and may not run again; empty for the phase of the pod.
	Container string
	// From is what was kept and To what was refused: phases, or "terminated" and "running" or "waiting".
	From, To string
}

// TransitionError says which parts of a status were not believed. The rest of that status was accepted.
type TransitionError struct {
	Pod    types.NamespacedName
	UID    types.UID
	Clamps []Clamp
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

// clampContainers puts back in status every container that ended in old and that by its restart rules cannot be
// anything else. It writes to the slices of status. The kubelet drops the whole status instead, and freezes the pod.
func clampContainers(spec *v1.PodSpec, old, status *v1.PodStatus) []Clamp {
	if restartsAll(spec) {
		return nil
	}
	var clamps []Clamp
	clamp := func(before, now []v1.ContainerStatus, again func(name string, code int32) bool) {
		for i := range now {
			was := containerStatus(before, now[i].Name)
			if was == nil || was.State.Terminated == nil || now[i].State.Terminated != nil ||
				again(was.Name, was.State.Terminated.ExitCode) {
				continue
			}
			clamps = append(clamps, Clamp{Container: was.Name, From: "terminated", To: stateName(&now[i].State)})
			now[i] = *was.DeepCopy()
			now[i].Ready, now[i].Started = false, new(bool)
		}
	}
	clamp(old.ContainerStatuses, status.ContainerStatuses, func(name string, code int32) bool {
		return restarts(spec, containerSpec(spec.Containers, name), code)
	})
	over := startsOver(spec, old, status)
	clamp(old.InitContainerStatuses, status.InitContainerStatuses, func(name string, code int32) bool {
		return over || restarts(spec, containerSpec(spec.InitContainers, name), code) // a sidecar's own policy is Always
	})
	clamp(old.EphemeralContainerStatuses, status.EphemeralContainerStatuses, func(string, int32) bool { return false })
	return clamps
}

// startsOver reports whether status may be that of a pod that has lost its sandbox: in the next one init runs again from
// its first container, whatever became of it before, as long as a regular container is still to run. None runs before
// init is done, so one that does says that init has no reason to. It is asked when the regular containers were clamped.
func startsOver(spec *v1.PodSpec, old, status *v1.PodStatus) bool {
	if len(spec.InitContainers) == 0 || isTerminal(old.Phase) {
		return false
	}
	due := false
	for i := range status.ContainerStatuses {
		s := &status.ContainerStatuses[i]
		switch ended := s.State.Terminated; {
		case s.State.Running != nil:
			return false
		case ended == nil, restarts(spec, containerSpec(spec.Containers, s.Name), ended.ExitCode):
			due = true
		}
	}
	return due
}

// stateName of a state that is not terminated.
func stateName(s *v1.ContainerState) string {
	if s.Running != nil {
		return "running"
	}
	return "waiting"
}

// clampPhase keeps the phase of status from moving backwards. An empty phase is one that is not told.
func clampPhase(old, status *v1.PodStatus) []Clamp {
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
	c := Clamp{From: string(old.Phase), To: string(status.Phase)}
	status.Phase, status.Reason, status.Message = old.Phase, old.Reason, old.Message
	return []Clamp{c}
}

// movesBack reports whether a pod cannot come to phase to. Nothing follows a terminal phase, and nothing is known of
// Unknown.
func movesBack(from, to v1.PodPhase) bool {
	return isTerminal(from) && to != from || from == v1.PodRunning && to == v1.PodPending
}
