// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Plan decides the next actions for a pod from its spec and its observed status. Plan is pure: the
// same input gives the same actions in the same order, and the input is not modified. The rules
// follow the kubelet's computePodActions in its newest version (1.36 and later merges).
//
// Invariants:
//   - A Ref is started at most once in a plan.
//   - A container is started only if all its running instances are killed in the same plan.
//   - A container is resized only while it runs and is neither killed nor started.
//   - A regular container is started only if the pod is initialized in its current sandbox, or has
//     no init containers.
//   - An init or regular container is started or restarted only while each sidecar ahead of it in
//     the spec is up: the sidecar runs in the current sandbox, has passed its startup probe, and is
//     not replaced by the same plan. Meanwhile running containers are kept: the end of a sidecar
//     does not stop a regular container, and a container to be replaced runs on until its successor
//     may start. (After the first start of a regular container, the kubelet starts containers
//     behind a sidecar that is down.)
//   - After pod.DeletionTimestamp is set, nothing is started, killed or created: KillPod stops the
//     pod with its own order and grace periods.
//   - Carrying out the plan and planning again leads to an Empty plan, in a number of steps bounded
//     by the pod's size. For a finished pod with a stopped sandbox the plan is Empty.
//
// Differences from the kubelet are in the comments of the deciding functions.
func Plan(in PlanInput) Actions {
	if in.Pod == nil {
		return Actions{}
	}
	p := planner{pod: in.Pod, status: in.Status, probes: in.Probes, known: in.Finished}
	if !podfacts.IsStatic(in.Pod) { // a change of a static pod makes another pod
		p.actuated = in.Actuated
	}
	sandbox := CheckSandbox(in.Pod, in.Status)
	p.out.Sandbox, p.out.Attempt = sandbox.ID, sandbox.Attempt

	switch {
	case in.Pod.DeletionTimestamp != nil:
	case RestartAllTriggered(in.Pod, in.Status):
		p.restartAll(sandbox)
	case sandbox.Changed:
		p.replaceSandbox(sandbox)
	default:
		p.converge()
	}
	return p.out
}

// planner is the state of a Plan call.
type planner struct {
	pod      *v1.Pod
	status   *PodStatus
	probes   Probes
	known    func(string, *ContainerStatus) bool          // PlanInput.Finished
	actuated func(string) (v1.ResourceRequirements, bool) // nil: nothing is resized
	held     bool                                         // a sidecar ahead of the current container is not up
	due      int                                          // number of containers to start, now or as soon as held is false
	out      Actions
}

// converge plans the containers of a pod that keeps its sandbox.
func (p *planner) converge() {
	initialized := p.planInit()
	if p.out.KillPod {
		return
	}
	if initialized {
		kept, due := p.planRegular()
		if kept == 0 && due == 0 {
			// Sidecars and ephemeral containers do not keep a pod alive.
			p.killPod("no regular container runs or is to be started")
			return
		}
	}
	p.planSuperseded()
	p.planEphemeral()
	p.orderResizes()
}

// killSuperseded is the reason for killing an instance that still runs beside a newer instance of
// its container.
const killSuperseded KillReason = "Superseded"

// killUnwanted is the reason for killing a container that is not in the pod: a static pod with an
// explicit UID was edited while no agent ran.
const killUnwanted KillReason = "Unwanted"

// planSuperseded kills instances that run beside the newest instance of their container, and
// instances of containers that are not in the pod. The kubelet ignores both kinds until the pod
// ends. The second kind exists only for a manifest with a constant UID, because an API server
// removes no container from a pod.
func (p *planner) planSuperseded() {
	for i := range p.status.Containers {
		st := &p.status.Containers[i]
		if st.State != StateRunning && st.State != StateUnknown {
			continue
		}
		ref, ok := Find(p.pod, st.Name)
		switch {
		case !ok:
			p.kill(st, killUnwanted, "the pod has no such container any more")
		case ref.Group == GroupEphemeral:
		case ref.Group == GroupInit && st == p.status.Active(st.Name):
		case ref.Group == GroupRegular && st == p.status.Latest(st.Name):
		default:
			p.kill(st, killSuperseded, "an older instance still runs")
		}
	}
}

// planEphemeral starts every ephemeral container without a record. An ephemeral container with a
// record is never started again.
func (p *planner) planEphemeral() {
	for i := range p.pod.Spec.EphemeralContainers {
		if p.status.Latest(p.pod.Spec.EphemeralContainers[i].Name) == nil {
			p.add(Ref{GroupEphemeral, i}, causeFirst)
		}
	}
}

// killPod replaces the planned actions by the end of the pod. For a pod that is already stopped the
// plan becomes empty. The kubelet kills such a pod at every sync.
func (p *planner) killPod(cause string) {
	p.out.Kill, p.out.Start, p.out.Resize = nil, nil, nil
	if p.status == nil {
		return
	}
	stoppable := false
	for i := range p.status.Sandboxes {
		stoppable = stoppable || p.status.Sandboxes[i].Ready
	}
	for i := range p.status.Containers {
		st := p.status.Containers[i].State
		stoppable = stoppable || st == StateRunning || st == StateUnknown
	}
	if stoppable {
		p.out.KillPod, p.out.Cause = true, cause
	}
}

// start starts an init or regular container, unless the container has to wait for a sidecar.
func (p *planner) start(ref Ref, cause string) {
	p.due++
	if !p.held {
		p.add(ref, cause)
	}
}

func (p *planner) add(ref Ref, cause string) {
	p.out.Start = append(p.out.Start, Start{Ref: ref, Name: ref.Container(p.pod).Name, Cause: cause})
}

func (p *planner) kill(st *ContainerStatus, reason KillReason, message string) {
	p.out.Kill = append(p.out.Kill, Kill{ID: st.ID, Name: st.Name, Reason: reason, Message: message})
}

// restart kills the instance and starts its container again. If the container has to wait for a
// sidecar, the instance is not killed either, because the exit could end the container for good.
func (p *planner) restart(ref Ref, st *ContainerStatus, reason KillReason, found string) {
	if p.held {
		p.out.ResizeWaits = p.out.ResizeWaits || p.misfit(ref.Container(p.pod))
	} else {
		p.kill(st, reason, found+", will be restarted")
	}
	p.start(ref, found)
}

// isDead reports whether the liveness probe of an instance has failed.
func (p *planner) isDead(c *v1.Container, id ContainerID) bool {
	if c.LivenessProbe == nil || p.probes == nil {
		return false
	}
	alive, known := p.probes.Alive(id.String())
	return known && !alive
}

// startup reports whether the startup probe of an instance has succeeded or failed. Without a
// result both are false. A container without a startup probe counts as started.
func (p *planner) startup(c *v1.Container, id ContainerID) (started, failed bool) {
	if c.StartupProbe == nil || p.probes == nil {
		return true, false
	}
	ok, known := p.probes.Started(id.String())
	return ok && known, !ok && known
}

// Causes in messages about containers.
const (
	causeFirst       = "first start"
	causeNeverRan    = "was made but never started"
	causeUnknown     = "is in an unknown state"
	causeSpecChanged = "definition changed"
	causeLiveness    = "failed liveness probe"
	causeStartup     = "failed startup probe"
)
