// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Plan decides what is to be done for a pod, given what its spec wants and what
// was observed. It is pure: the same input gives the same plan, in the same
// order, and the input is not written to. It follows the kubelet's
// computePodActions at its newest level (1.36 and what was merged since).
//
// Invariants:
//   - One Ref is started at most once in a plan.
//   - A container is started only if no instance of it runs, or each one that
//     does is killed in the same plan.
//   - A container is resized only while it runs and is neither killed nor started.
//   - A regular container is started only if the pod is initialized in its
//     current sandbox, or has no init containers.
//   - An init or regular container is started only while each sidecar ahead of it in
//     the spec is up: it runs in the current sandbox, has passed its startup probe if
//     it has one, and is not replaced by the same plan. This holds for a restart, too,
//     whatever has ended in between. What runs is kept meanwhile: a regular container
//     does not stop because a sidecar does, and one that is to be replaced runs on
//     until its successor may start. (The kubelet starts what is behind a sidecar that
//     is down or not started yet, once a regular container was made.)
//   - Nothing is started, killed or created once pod.DeletionTimestamp is set:
//     from then on KillPod owns the pod, with its own order and grace periods.
//   - Doing what the plan says and planning again reaches, in a number of steps
//     bounded by the pod's size, a plan that is Empty. A finished pod whose
//     sandbox is stopped is Empty, not killed again and again.
//
// Where it differs from the kubelet, the function that decides says so.
func Plan(in PlanInput) Actions {
	if in.Pod == nil {
		return Actions{}
	}
	p := planner{pod: in.Pod, status: in.Status, probes: in.Probes, known: in.Finished}
	if !podfacts.IsStatic(in.Pod) { // whose changes make another pod
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

// planner carries one Plan call.
type planner struct {
	pod      *v1.Pod
	status   *PodStatus
	probes   Probes
	known    func(string, *ContainerStatus) bool          // PlanInput.Finished
	actuated func(string) (v1.ResourceRequirements, bool) // nil: nothing is resized
	held     bool                                         // a sidecar ahead of what is decided now is not up
	due      int                                          // containers that are to be started, now or when they are not held any more
	out      Actions
}

// converge plans for a pod whose sandbox is as wanted.
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

// killSuperseded is the reason to kill an instance that should have been gone
// when a newer one of its container was made.
const killSuperseded KillReason = "Superseded"

// killUnwanted is the reason to kill a container that the pod does not have: a
// static pod with a UID of its own was edited while no agent ran.
const killUnwanted KillReason = "Unwanted"

// planSuperseded kills every instance that runs beside the one that the plan
// goes by, so that nothing runs twice, and what the pod does not have. The kubelet
// never looks at such instances again: no API server takes a container out of a pod,
// so it meets the latter only where a manifest keeps its UID, and leaves them running
// until the pod ends.
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

// planEphemeral starts every ephemeral container that was never made. One that
// was is left alone for good, whatever became of it.
func (p *planner) planEphemeral() {
	for i := range p.pod.Spec.EphemeralContainers {
		if p.status.Latest(p.pod.Spec.EphemeralContainers[i].Name) == nil {
			p.add(Ref{GroupEphemeral, i}, causeFirst)
		}
	}
}

// killPod replaces what was planned so far by the end of the pod. If nothing of
// it is left to stop, that is nothing; the kubelet kills such a pod again at
// every sync.
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

// start starts an init or regular container, unless it has to wait for a sidecar.
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

// restart kills the instance and starts its container again. One that has to wait for a
// sidecar is not killed either: how it ends by a kill of its own may be for good.
func (p *planner) restart(ref Ref, st *ContainerStatus, reason KillReason, found string) {
	if p.held {
		p.out.ResizeWaits = p.out.ResizeWaits || p.misfit(ref.Container(p.pod))
	} else {
		p.kill(st, reason, found+", will be restarted")
	}
	p.start(ref, found)
}

// liveness and startup ask the prober only about what has the probe.
func (p *planner) liveness(c *v1.Container, id ContainerID) Verdict {
	if c.LivenessProbe == nil || p.probes == nil {
		return VerdictSuccess
	}
	return p.probes.Liveness(id)
}

func (p *planner) startup(c *v1.Container, id ContainerID) Verdict {
	if c.StartupProbe == nil || p.probes == nil {
		return VerdictSuccess
	}
	return p.probes.Startup(id)
}

// What people read about containers.
const (
	causeFirst       = "first start"
	causeNeverRan    = "was made but never started"
	causeUnknown     = "is in an unknown state"
	causeSpecChanged = "spec changed"
	causeLiveness    = "failed its liveness probe"
	causeStartup     = "failed its startup probe"
)
