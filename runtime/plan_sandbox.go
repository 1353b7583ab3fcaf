// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// SandboxCheck is whether a pod's sandbox is as its spec wants it.
type SandboxCheck struct {
	Changed bool      // there is none, or it must be replaced
	ID      SandboxID // Actions.Sandbox
	Attempt uint32    // of the sandbox if it stays, else of the next one
	// Reason and Message are why it is Changed, in the forms of a condition.
	Reason, Message string
}

// Reasons of a SandboxCheck.
const (
	sandboxMissing        = "SandboxMissing"
	sandboxesConflict     = "MultipleReadySandboxes"
	sandboxNotReady       = "SandboxNotReady"
	sandboxNetworkChanged = "SandboxNetworkChanged"
	sandboxWithoutIP      = "SandboxWithoutIP"
)

// CheckSandbox decides whether pod needs a new sandbox. A sandbox without a
// known network is never replaced for lack of an address.
func CheckSandbox(pod *v1.Pod, status *PodStatus) SandboxCheck {
	if status == nil || len(status.Sandboxes) == 0 {
		return SandboxCheck{Changed: true, Reason: sandboxMissing, Message: "the pod has no sandbox"}
	}
	ready := 0
	for i := range status.Sandboxes {
		if status.Sandboxes[i].Ready {
			ready++
		}
	}
	newest := &status.Sandboxes[0]
	changed := SandboxCheck{Changed: true, ID: newest.ID, Attempt: newest.Attempt + 1}
	switch {
	case ready > 1:
		changed.Reason, changed.Message = sandboxesConflict, "the pod has more than one ready sandbox"
	case !newest.Ready:
		changed.Reason, changed.Message = sandboxNotReady, "the pod's sandbox is not ready"
	case newest.HostNetwork != pod.Spec.HostNetwork:
		// As in the kubelet the old one is not named: it is no failure to report.
		changed.ID = ""
		changed.Reason, changed.Message = sandboxNetworkChanged, "the pod moves between its own network and the host's"
	case !pod.Spec.HostNetwork && newest.NetworkKnown && (len(newest.IPs) == 0 || newest.IPs[0] == ""):
		changed.Reason, changed.Message = sandboxWithoutIP, "the pod's sandbox has no IP address"
	default:
		return SandboxCheck{ID: newest.ID, Attempt: newest.Attempt}
	}
	return changed
}

// replaceSandbox plans for a pod that has no sandbox as wanted: a new one, with
// init from the beginning, or, if nothing is to run in it, the end of the pod.
func (p *planner) replaceSandbox(s SandboxCheck) {
	if cause := p.staysDown(); cause != "" {
		p.killPod(s.Message + "; " + cause)
		return
	}
	p.out.KillPod, p.out.CreateSandbox, p.out.Cause = true, true, s.Message
	if len(p.pod.Spec.InitContainers) > 0 {
		p.add(Ref{GroupInit, 0}, "init starts over in a new sandbox")
		return
	}
	for i := range p.pod.Spec.Containers {
		if cause, due := p.dueInNewSandbox(&p.pod.Spec.Containers[i]); due {
			p.add(Ref{GroupRegular, i}, cause)
		}
	}
}

// staysDown returns why no new sandbox is made, or "".
//
// The kubelet looks at the pod's policy only: a "Never" pod that has any record stays
// down. Here each container is asked for its own, as it is while the sandbox lasts. So
// a sidecar-like "Always" container brings a "Never" pod back (else it would stay
// Running with nothing running); one that never ran, because the sandbox was lost
// before its turn, has its one run (else the pod would be Pending for good, its other
// containers having ended); and an init container with its own "Never" that failed
// ends the pod (else it would run again in every new sandbox).
func (p *planner) staysDown() string {
	spec := &p.pod.Spec
	if !slices.ContainsFunc(spec.Containers, func(c v1.Container) bool {
		_, due := p.dueInNewSandbox(&c)
		return due
	}) {
		return "all containers have run for good"
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		st := p.status.Latest(c.Name)
		if st != nil && !IsSidecar(c) && st.Failed() && !p.mayRetryInit(c, st) {
			return fmt.Sprintf("init container %s failed and is not restarted", c.Name)
		}
	}
	return ""
}

// dueInNewSandbox reports whether regular container c is to run in the next
// sandbox, and why. It is planRegular's decision, for a container that will have
// been killed by then; so what does not restart does not restart because its
// sandbox was lost either, nor because nobody knows whether it ran. (The kubelet
// starts an exited "Never" container again in that case, unless the pod has init
// containers.)
func (p *planner) dueInNewSandbox(c *v1.Container) (cause string, due bool) {
	st := p.status.Latest(c.Name)
	switch {
	case p.finished(c, st):
		return "", false
	case st != nil && st.State == StateRunning:
		return "moves to the new sandbox", restartsAfterKill(p.pod, c)
	}
	return startCause(st), ShouldRestart(p.pod, c, st)
}

// startCause says why a container is started that does not run.
func startCause(st *ContainerStatus) string {
	switch {
	case st == nil:
		return causeFirst
	case st.State == StateCreated:
		return causeNeverRan
	case st.State == StateExited && st.Reason == ReasonOOMKilled:
		return fmt.Sprintf("was killed for want of memory (code %d)", st.ExitCode)
	case st.State == StateExited:
		return fmt.Sprintf("exited with code %d", st.ExitCode)
	default:
		return causeUnknown
	}
}
