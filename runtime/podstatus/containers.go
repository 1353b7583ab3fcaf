// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podconditions"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/restartrule"
	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/runtime"
)

// Reasons of waiting and terminated containers that Generate sets.
const (
	ReasonContainerCreating  = "ContainerCreating"
	ReasonPodInitializing    = "PodInitializing"
	ReasonStatusUnknown      = "ContainerStatusUnknown"
	ReasonRestartingAll      = podconditions.ReasonRestartingAll
	exitCodeUnknown          = 137
	messageLost              = "The container could not be located. It used to be Running"
	messageRemoved           = "The container was removed because all containers of the pod are restarted in place"
	messageSecretProgram     = "The program cannot be executed. Its name is from a variable and is not shown"
	messageInitRecordMissing = "The record of this init container is gone; since the pod is initialized it is taken as completed"
)

// place is a container of the spec with its newest record and its previous status.
type place struct {
	ref     runtime.Ref
	spec    *v1.Container
	sidecar bool
	newest  *runtime.ContainerStatus // nil = no record
	old     *v1.ContainerStatus      // nil = not in the previous status
}

// finishedBefore reports whether the newest instance was created and never ran, although the
// container has finished in the previous status. Such a container is not started. p.newest is not nil.
func (g *generator) finishedBefore(p *place) bool {
	return !g.resetting && p.newest.State == runtime.StateCreated && runtime.Finished(g.Pod, g.previous, p.spec.Name, p.newest)
}

func (p *place) plainInit() bool { return p.ref.Group == runtime.GroupInit && !p.sidecar }

// containerStatuses returns the status of every container of the group: init containers in spec
// order, others by name.
func (g *generator) containerStatuses(group runtime.Group) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i := 0; ; i++ {
		p, ok := g.place(runtime.Ref{Group: group, Index: i})
		if !ok {
			break
		}
		var status v1.ContainerStatus
		switch {
		case p.newest == nil:
			status = g.withoutRecord(p)
		case g.finishedBefore(p):
			status = *p.old.DeepCopy()
		default:
			status = g.fromRecord(p)
		}
		g.applyStartFailure(p, &status)
		g.applyProbes(p, &status)
		status.VolumeMounts = mountStatuses(p.spec)
		if g.Devices != nil && group == runtime.GroupRegular {
			status.AllocatedResourcesStatus = g.Devices(p.spec.Name)
		}
		out = append(out, status)
	}
	if group != runtime.GroupInit {
		sorted.Stable(out, func(a, b v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
	}
	return out
}

func (g *generator) place(ref runtime.Ref) (*place, bool) {
	spec := ref.Container(g.Pod)
	if spec == nil {
		return nil, false
	}
	p := &place{ref: ref, spec: spec, newest: g.Observed.Latest(spec.Name)}
	list := g.previous.ContainerStatuses
	switch ref.Group {
	case runtime.GroupInit:
		p.sidecar = podfacts.IsSidecar(spec)
		list = g.previous.InitContainerStatuses
	case runtime.GroupEphemeral:
		list = g.previous.EphemeralContainerStatuses
	}
	p.old = podfacts.ContainerStatus(list, spec.Name)
	return p, true
}

// fromRecord returns the status of a container with a record in the runtime.
func (g *generator) fromRecord(p *place) v1.ContainerStatus {
	in := p.newest
	status := v1.ContainerStatus{
		Name:         p.spec.Name,
		Image:        cmp.Or(in.Image, p.spec.Image),
		ImageID:      cmp.Or(in.ImageRef, in.ImageID),
		ContainerID:  in.ID.String(),
		RestartCount: g.restartCount(in, p.old),
		User:         in.User.DeepCopy(),
	}
	if p.old != nil && isBack(in, p.old) {
		status.ContainerID = p.old.ContainerID
	}
	status.LastTerminationState.Terminated = g.lastTermination(p)
	switch in.State {
	case runtime.StateRunning:
		status.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(in.StartedAt)}
	case runtime.StateExited:
		status.State.Terminated = terminated(p.spec, in)
	case runtime.StateUnknown:
		switch {
		case p.old != nil && (p.old.State.Running != nil || wasLost(p.old) && p.old.ContainerID == in.ID.String()):
			status.State.Terminated = lost(in.ID.String())
		default:
			status.State.Waiting = &v1.ContainerStateWaiting{}
		}
	default:
		status.State.Waiting = &v1.ContainerStateWaiting{}
	}
	g.setResources(p.spec, in, &status)
	return status
}

// terminated returns the API form of an exited instance of the container spec.
func terminated(spec *v1.Container, in *runtime.ContainerStatus) *v1.ContainerStateTerminated {
	reason, message := in.Reason, in.Message
	if reason == runtime.ReasonStartError && programFromVariable(spec) {
		message = messageSecretProgram
	}
	switch {
	case reason != "":
	case in.ExitCode == 0:
		reason = runtime.ReasonCompleted
	default:
		reason = runtime.ReasonError
	}
	began := in.StartedAt
	if began.IsZero() {
		began = time.Unix(0, 0) // an instance that never started, as in the kubelet
	}
	return &v1.ContainerStateTerminated{
		ExitCode:    in.ExitCode,
		Reason:      reason,
		Message:     message,
		StartedAt:   metav1.NewTime(began),
		FinishedAt:  metav1.NewTime(in.FinishedAt),
		ContainerID: in.ID.String(),
	}
}

// programFromVariable reports whether the name of the container's program contains the value of a
// variable. The value may be secret, and the runtime's message of a failed start has the name.
func programFromVariable(spec *v1.Container) bool {
	for _, words := range [][]string{spec.Command, spec.Args} {
		if len(words) > 0 && strings.Contains(words[0], "$(") {
			return true
		}
	}
	return false
}

// mountStatuses returns the status of each volume mount. Whether mounts below a mount are read-only
// is left out if the container runtime decides (IfPossible).
func mountStatuses(spec *v1.Container) []v1.VolumeMountStatus {
	var out []v1.VolumeMountStatus
	for _, m := range spec.VolumeMounts {
		status := v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		mode := v1.RecursiveReadOnlyDisabled
		if m.RecursiveReadOnly != nil {
			mode = *m.RecursiveReadOnly
		}
		if m.ReadOnly && mode != v1.RecursiveReadOnlyIfPossible {
			status.RecursiveReadOnly = &mode
		}
		out = append(out, status)
	}
	return out
}

// lost returns the termination of an instance that was running and has no known exit.
func lost(id string) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{
		ExitCode: exitCodeUnknown, Reason: ReasonStatusUnknown, Message: messageLost, ContainerID: id,
	}
}

// applyStartFailure shows the start failure of a container that should run. The termination of the
// last instance moves to lastState. Without a failure the termination stays visible, because the
// container will be started at once.
func (g *generator) applyStartFailure(p *place, status *v1.ContainerStatus) {
	failure := g.StartFailures[p.spec.Name]
	if failure.Reason == "" || !g.mayStart() || !runtime.ShouldRestart(g.Pod, p.spec, p.newest) {
		return
	}
	ended := status.State.Terminated
	switch {
	case p.plainInit() && (g.initialized || g.initPast(p.ref.Index) || ended != nil && !failedInit(ended)):
		return // init is complete or has passed the container
	case p.ref.Group == runtime.GroupEphemeral && ended != nil:
		return // ephemeral containers are never restarted
	case ended != nil && !restartrule.AfterExit(&g.Pod.Spec, p.spec, ended.ExitCode, ended.Reason):
		return // the record is gone, but the exit is known
	case ended != nil:
		status.LastTerminationState = v1.ContainerState{Terminated: ended}
	}
	status.State = v1.ContainerState{Waiting: &failure}
}

// failedInit reports whether an init container failed, by the rule of
// runtime.ContainerStatus.Failed.
func failedInit(t *v1.ContainerStateTerminated) bool {
	return t.ExitCode != 0 || t.Reason == runtime.ReasonOOMKilled
}

// applyProbes sets Started and Ready of the current instance. A new instance does not inherit the
// values of an earlier instance. A plain init container is ready when complete. An ephemeral
// container is never ready.
func (g *generator) applyProbes(p *place, status *v1.ContainerStatus) {
	status.Ready, status.Started = false, nil
	if p.ref.Group == runtime.GroupEphemeral {
		return
	}
	started := status.State.Running != nil &&
		(p.spec.StartupProbe == nil || g.Started == nil || g.Started(p.newest.ID))
	status.Started = &started
	if p.plainInit() {
		status.Ready = status.State.Terminated != nil && !failedInit(status.State.Terminated)
		return
	}
	status.Ready = started && (p.spec.ReadinessProbe == nil || g.Ready == nil || g.Ready(p.newest.ID))
}
