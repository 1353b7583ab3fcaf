// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	v1 "k8s.io/api/core/v1"
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
	p := planner{pod: in.Pod, status: in.Status, probes: in.Probes, hash: in.Hash, known: in.Finished}
	if !isStatic(in.Pod) { // whose changes make another pod
		p.actuated = in.Actuated
	}
	if p.hash == nil {
		p.hash = HashCompat
	}
	sandbox := CheckSandbox(in.Pod, in.Status)
	p.out.Sandbox, p.out.Attempt = sandbox.ID, sandbox.Attempt

	switch {
	case in.Pod.DeletionTimestamp != nil:
	case in.RestartAll && p.restartAll(sandbox):
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
	hash     func(*v1.Container) string
	known    func(string, *ContainerStatus) bool          // PlanInput.Finished
	actuated func(string) (v1.ResourceRequirements, bool) // nil: nothing is resized
	out      Actions
}

// converge plans for a pod whose sandbox is as wanted.
func (p *planner) converge() {
	initialized := p.planInit()
	if p.out.KillPod {
		return
	}
	if initialized {
		kept, started := p.planRegular()
		if kept == 0 && started == 0 {
			// Sidecars and ephemeral containers do not keep a pod alive.
			p.killPod("no regular container runs or is to be started")
			return
		}
	}
	p.planSuperseded()
	p.planEphemeral()
	p.orderResizes()
}

// KillSuperseded is the reason to kill an instance that should have been gone
// when a newer one of its container was made.
const KillSuperseded KillReason = "Superseded"

// KillUnwanted is the reason to kill a container that the pod does not have: a
// static pod with a UID of its own was edited while no agent ran.
const KillUnwanted KillReason = "Unwanted"

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
			p.kill(st, KillUnwanted, "the pod has no such container any more")
		case ref.Group == GroupEphemeral:
		case ref.Group == GroupInit && st == p.status.Active(st.Name):
		case ref.Group == GroupRegular && st == p.status.Latest(st.Name):
		default:
			p.kill(st, KillSuperseded, "an older instance still runs")
		}
	}
}

// planEphemeral starts every ephemeral container that was never made. One that
// was is left alone for good, whatever became of it.
func (p *planner) planEphemeral() {
	for i := range p.pod.Spec.EphemeralContainers {
		if p.status.Latest(p.pod.Spec.EphemeralContainers[i].Name) == nil {
			p.start(Ref{GroupEphemeral, i}, causeFirst)
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

func (p *planner) start(ref Ref, cause string) {
	p.out.Start = append(p.out.Start, Start{Ref: ref, Name: ref.Container(p.pod).Name, Cause: cause})
}

func (p *planner) kill(st *ContainerStatus, reason KillReason, message string) {
	p.out.Kill = append(p.out.Kill, Kill{ID: st.ID, Name: st.Name, Reason: reason, Message: message})
}

// restart kills the instance and starts its container again.
func (p *planner) restart(ref Ref, st *ContainerStatus, reason KillReason, found string) {
	p.kill(st, reason, found+", will be restarted")
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
