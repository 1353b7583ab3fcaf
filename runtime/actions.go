// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Reasons of exited containers that decisions depend on.
const (
	ReasonOOMKilled = "OOMKilled"
	ReasonCompleted = "Completed"
	ReasonError     = "Error"
)

// Verdict is what a probe says of one container instance.
type Verdict uint8

// The verdicts. VerdictNone: no result yet.
const (
	VerdictNone Verdict = iota
	VerdictSuccess
	VerdictFailure
)

// Probes answers for container instances that have the probe in their spec.
type Probes interface {
	Liveness(id ContainerID) Verdict
	Startup(id ContainerID) Verdict
}

// PlanInput is everything Plan looks at. Plan writes to none of it.
type PlanInput struct {
	Pod    *v1.Pod
	Status *PodStatus // nil = nothing was ever made for the pod
	// Probes are the latest results. Defaults to success for everything.
	Probes Probes
	// Actuated tells the cpu and memory that the running instance of a container
	// was last given. False: it may have something else, so whatever can be set
	// without a restart is set again. Other resources in it are not looked at.
	// Defaults to nil: nothing is resized.
	Actuated func(container string) (v1.ResourceRequirements, bool)
	// Finished reports whether a regular container is known to have run for good of
	// which there is no record (made is nil), or whose newest instance, made, never
	// ran: what a runtime was asked for by an agent that is gone may appear late.
	// Finished knows it from a status. Defaults to never: what has no
	// record never ran.
	Finished func(container string, made *ContainerStatus) bool
}

// Actions is a plan: what to do, in which order, and why. The zero value means
// that nothing is to be done.
type Actions struct {
	// KillPod: stop every running container (sidecars last) and every sandbox.
	// Then Kill is empty, and Start happens only if CreateSandbox.
	KillPod bool
	// CreateSandbox: make a new sandbox with number Attempt, after KillPod.
	// The records of init containers are removed first, since init starts over.
	CreateSandbox bool
	Attempt       uint32
	// Sandbox is the sandbox this plan was made for: the current one, or the
	// one that is replaced. Empty if there was none or, as in the kubelet, if
	// it is replaced because the network mode changed.
	Sandbox SandboxID
	// Cause says in words why the pod is killed or its sandbox (re)created.
	Cause string

	Kill  []Kill  // in this order, before anything starts
	Start []Start // init and sidecars in spec order, then regular, then ephemeral
	// Resize, in this order, of containers that are neither killed nor started.
	Resize []Resize
	// ResizeWaits: a container that runs with other resources than wanted is restarted with the wanted resources when the
	// sidecars ahead of it are up.
	ResizeWaits bool
}

// KillReason is why one container is killed; it decides the grace period.
type KillReason string

// The reasons, with the kubelet's words where it has one.
const (
	killStartupProbe    KillReason = "StartupProbe"
	killLivenessProbe   KillReason = "LivenessProbe"
	killUnknownState    KillReason = "Unknown"
	killSpecChanged     KillReason = "SpecChanged"
	killRestartAll      KillReason = "RestartAllContainers"
	killFailedPostStart KillReason = "FailedPostStartHook"
	KillPodTerminating  KillReason = "PodTerminating"
)

// Kill stops one container instance.
type Kill struct {
	ID      ContainerID
	Name    string
	Reason  KillReason
	Message string // for people: what was found, and whether it will be restarted
	// Remove also removes the instance's record, keeping its logs (RestartAll).
	// An exited instance is then only removed.
	Remove bool
}

// Start starts one container.
type Start struct {
	Ref   Ref
	Name  string
	Cause string // for people: "first start", "exited with code 1", …
}

// Empty reports whether the plan does nothing.
func (a Actions) Empty() bool {
	return !a.KillPod && !a.CreateSandbox && len(a.Kill) == 0 && len(a.Start) == 0 && len(a.Resize) == 0
}

// String prints the plan, one action a line, for logs, diffs and golden files.
func (a Actions) String() string {
	var b strings.Builder
	if a.KillPod {
		fmt.Fprintf(&b, "kill pod: %s\n", a.Cause)
	}
	if a.CreateSandbox {
		fmt.Fprintf(&b, "create sandbox %d: %s\n", a.Attempt, a.Cause)
	}
	for _, k := range a.Kill {
		verb := "kill"
		if k.Remove {
			verb = "remove"
		}
		fmt.Fprintf(&b, "%s %s (%s): %s\n", verb, k.Name, k.ID.ID, k.Message)
	}
	for _, r := range a.Resize {
		fmt.Fprintf(&b, "resize %s of %s (%s): %s\n", r.Resource, r.Name, r.ID.ID, r.Cause)
	}
	for _, s := range a.Start {
		fmt.Fprintf(&b, "start %s[%d] %s: %s\n", s.Ref.Group, s.Ref.Index, s.Name, s.Cause)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}
