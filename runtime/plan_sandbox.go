// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/restartrule"
)

// SandboxCheck is the comparison of a pod's sandbox with the pod's spec.
type SandboxCheck struct {
	Changed bool      // the sandbox is missing, or must be replaced
	ID      SandboxID // Actions.Sandbox
	Attempt uint32    // of the kept sandbox, else of the next sandbox
	// Reason and Message explain Changed, in the form of a condition.
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

// CheckSandbox decides whether pod needs a new sandbox. A missing address is no reason to replace a
// sandbox without a known network.
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
		// As in the kubelet the old sandbox is not named, because it did not fail.
		changed.ID = ""
		changed.Reason, changed.Message = sandboxNetworkChanged, "the pod moves between its own network and the host's"
	case !pod.Spec.HostNetwork && newest.NetworkKnown && (len(newest.IPs) == 0 || newest.IPs[0] == ""):
		changed.Reason, changed.Message = sandboxWithoutIP, "the pod's sandbox has no IP address"
	default:
		return SandboxCheck{ID: newest.ID, Attempt: newest.Attempt}
	}
	return changed
}

// replaceSandbox plans for a pod without a suitable sandbox: a new sandbox in which init starts
// over, or the end of the pod if no container is to run.
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

// staysDown returns the reason for making no new sandbox, or "".
//
// The kubelet considers the pod's policy only: a "Never" pod with any record stays down. Here the
// policy of each container decides, as in an existing sandbox:
//   - A container with the policy "Always" brings a "Never" pod back. Otherwise the pod would stay
//     Running without a running container.
//   - A container that never ran, because the sandbox was lost early, runs once. Otherwise the pod
//     would stay Pending after the ends of its other containers.
//   - A failed init container with the policy "Never" ends the pod. Otherwise it would run again in
//     every new sandbox. A sidecar has the policy "Always".
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
		if st != nil && st.Failed() && !ShouldRestart(p.pod, c, st) {
			return fmt.Sprintf("init container %s failed and is not restarted", c.Name)
		}
	}
	return ""
}

// dueInNewSandbox reports whether regular container c is to run in the next sandbox, with the
// cause. The rules are those of planRegular for a killed container. So neither a lost sandbox nor
// an unknown state starts a container that does not restart. (In that case the kubelet starts an
// exited "Never" container again, unless the pod has init containers.)
func (p *planner) dueInNewSandbox(c *v1.Container) (cause string, due bool) {
	st := p.status.Latest(c.Name)
	switch {
	case p.finished(c, st):
		return "", false
	case st != nil && st.State == StateRunning:
		return "moves to the new sandbox", restartrule.AfterKill(&p.pod.Spec, c)
	}
	return startCause(st), ShouldRestart(p.pod, c, st)
}

// startCause returns the cause for starting a container that does not run.
func startCause(st *ContainerStatus) string {
	switch {
	case st == nil:
		return causeFirst
	case st.State == StateCreated:
		return causeNeverRan
	case st.State == StateExited && st.Reason == ReasonOOMKilled:
		return fmt.Sprintf("was killed for lack of memory (code %d)", st.ExitCode)
	case st.State == StateExited:
		return fmt.Sprintf("exited with code %d", st.ExitCode)
	default:
		return causeUnknown
	}
}
