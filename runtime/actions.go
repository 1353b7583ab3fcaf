// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/restartrule"
)

// Reasons of exited containers that affect decisions.
const (
	ReasonOOMKilled = restartrule.OOMKilled
	ReasonCompleted = "Completed"
	ReasonError     = "Error"
	// ReasonStartError is the reason of an instance whose program could not be executed, and
	// ExitCodeStartError its exit code.
	ReasonStartError   = "StartError"
	ExitCodeStartError = 128
)

// Probes returns the probe results of container instances. Plan asks only for instances whose
// container has the probe. id is the text of a ContainerID. known is false before the first result.
// The methods return without waiting for a probe. *prober.Prober implements Probes.
type Probes interface {
	// Alive is the result of the liveness probe.
	Alive(id string) (ok, known bool)
	// Started is the result of the startup probe.
	Started(id string) (ok, known bool)
}

// PlanInput is the complete input of Plan. Plan does not modify the input.
type PlanInput struct {
	Pod    *v1.Pod
	Status *PodStatus // nil: the pod has no records
	// Probes has the latest results. Defaults to success for every probe.
	Probes Probes
	// Actuated returns the cpu and memory last applied to the running instance of a container. If
	// the second result is false, the applied resources are unknown, and Plan sets every value
	// again that can be set without a restart. Other resources in the result are ignored. Defaults
	// to nil: no container is resized.
	Actuated func(container string) (v1.ResourceRequirements, bool)
	// Finished reports whether a regular container is known to have ended for good, although no
	// record shows the end. made is the newest instance if it never ran, else nil: an instance
	// requested by an earlier agent may appear late. The function Finished derives the answer from
	// a status. Defaults to false: a container without a record never ran.
	Finished func(container string, made *ContainerStatus) bool
}

// Actions is a plan: ordered actions with their causes. The zero value means no action.
type Actions struct {
	// KillPod: stop every running container (sidecars last) and every sandbox. With KillPod, Kill
	// is empty, and Start has entries only with CreateSandbox.
	KillPod bool
	// CreateSandbox: make a new sandbox with number Attempt, after KillPod. The records of init
	// containers are removed first, because init starts over.
	CreateSandbox bool
	Attempt       uint32
	// Sandbox is the current sandbox, or the sandbox to be replaced. Sandbox is empty if the pod
	// has no sandbox or, as in the kubelet, if the sandbox is replaced because the network mode
	// changed.
	Sandbox SandboxID
	// Cause is the reason for KillPod or CreateSandbox, in words.
	Cause string

	Kill  []Kill  // in this order, before any start
	Start []Start // init containers and sidecars in spec order, then regular, then ephemeral containers
	// Resize lists resizes, in this order, of containers that are neither killed nor started.
	Resize []Resize
	// ResizeWaits: a container runs with other resources than wanted, and is restarted with the
	// wanted resources when the sidecars ahead of it are up.
	ResizeWaits bool
}

// KillReason is the reason for killing a container. The reason determines the grace period.
type KillReason string

// The reasons. They are the kubelet's words if the kubelet has the reason.
const (
	killStartupProbe    KillReason = "StartupProbe"
	killLivenessProbe   KillReason = "LivenessProbe"
	killUnknownState    KillReason = "Unknown"
	killSpecChanged     KillReason = "SpecChanged"
	killRestartAll      KillReason = "RestartAllContainers"
	killFailedPostStart KillReason = "FailedPostStartHook"
	killPodTerminating  KillReason = "PodTerminating"
)

// Kill stops a container instance.
type Kill struct {
	ID      ContainerID
	Name    string
	Reason  KillReason
	Message string // for people: the finding, and whether the container will be restarted
	// Remove: the record of the instance is removed, too, but not its logs (RestartAll). An exited
	// instance is only removed.
	Remove bool
}

// Start starts a container.
type Start struct {
	Ref   Ref
	Name  string
	Cause string // for people: "first start", "exited with code 1", …
}

// Empty reports whether the plan does nothing.
func (a Actions) Empty() bool {
	return !a.KillPod && !a.CreateSandbox && len(a.Kill) == 0 && len(a.Start) == 0 && len(a.Resize) == 0
}

// resizing reports whether containers do not have the resources of the spec yet.
func (a *Actions) resizing() bool {
	return a.ResizeWaits || len(a.Resize) > 0 || slices.ContainsFunc(a.Kill, func(k Kill) bool { return k.Reason == killResize })
}

// String prints the plan, an action per line, for logs, diffs and golden files.
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
