// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Op is what an entry of the journal is about: a call of the seam, which begins
// with a capital letter, or something that happened by itself.
type Op string

// The calls.
const (
	OpRunSandbox      Op = "RunSandbox"
	OpStopSandbox     Op = "StopSandbox"
	OpRemoveSandbox   Op = "RemoveSandbox"
	OpCreateContainer Op = "CreateContainer"
	OpStartContainer  Op = "StartContainer"
	OpStopContainer   Op = "StopContainer"
	OpRemoveContainer Op = "RemoveContainer"
	OpList            Op = "List"
	OpPodStatus       Op = "PodStatus"
	OpWatch           Op = "Watch"
	OpExec            Op = "Exec"
)

func calls() []Op {
	return []Op{
		OpRunSandbox, OpStopSandbox, OpRemoveSandbox, OpCreateContainer, OpStartContainer, OpStopContainer,
		OpRemoveContainer, OpList, OpPodStatus, OpWatch, OpExec,
		OpUpdateResources, OpMemoryUsage, OpContainerStats, OpListStats,
		OpExecURL, OpAttachURL, OpPortForwardURL,
	}
}

// What happens by itself, or is made to happen by a test.
const (
	OpExited      Op = "exited"       // a container, for whatever reason
	OpTerminating Op = "terminating"  // a container got SIGTERM
	OpLostTrack   Op = "lost-track"   // World.LoseTrack
	OpLostRecords Op = "lost-records" // World.LoseRecords
	OpLostIP      Op = "lost-ip"      // World.SandboxLosesIP
	OpReplaced    Op = "replaced"     // World.Replace
	OpRebooted    Op = "rebooted"     // World.Reboot
)

// Call is what is known about a call when it comes in. What it does not concern
// is empty; so is what an unknown ID hides.
type Call struct {
	Op        Op
	UID       types.UID
	Namespace string
	Pod       string // the pod's name
	Container string // the container's name
	Image     string // ContainerSpec.Image
}

// Target picks calls, entries of the journal or containers: those that agree
// with every field that is not empty. The zero value picks everything.
type Target struct {
	Op        Op
	UID       types.UID
	Pod       string // the pod's name
	Container string // the container's name
	Image     string // ContainerSpec.Image
}

func (t Target) matches(c Call) bool {
	return (t.Op == "" || t.Op == c.Op) &&
		(t.UID == "" || t.UID == c.UID) &&
		(t.Pod == "" || t.Pod == c.Pod) &&
		(t.Container == "" || t.Container == c.Container) &&
		(t.Image == "" || t.Image == c.Image)
}

// String names what t picks, for messages.
func (t Target) String() string {
	var parts []string
	if t.Op != "" {
		parts = append(parts, string(t.Op))
	}
	for _, part := range []struct{ key, value string }{
		{"uid", string(t.UID)}, {"pod", t.Pod}, {"container", t.Container}, {"image", t.Image},
	} {
		if part.value != "" {
			parts = append(parts, part.key+"="+part.value)
		}
	}
	if len(parts) == 0 {
		return "anything"
	}
	return strings.Join(parts, " ")
}
