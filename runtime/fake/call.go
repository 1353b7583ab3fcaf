// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Op is the kind of a journal entry: a call of the runtime interface, or an event. The kinds of calls
// begin with a capital letter.
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

// Events that happen by themselves or are caused by a test.
const (
	OpExited      Op = "exited"       // a container, for any reason
	OpTerminating Op = "terminating"  // a container got SIGTERM
	OpLostTrack   Op = "lost-track"   // World.LoseTrack
	OpLostRecords Op = "lost-records" // World.LoseRecords
	OpLostIP      Op = "lost-ip"      // World.SandboxLosesIP
	OpReplaced    Op = "replaced"     // World.Replace
	OpRetuned     Op = "retuned"      // World.Retune
	OpRebooted    Op = "rebooted"     // World.Reboot
)

// Call describes an incoming call. Fields that do not apply to the call are empty. If the container
// or sandbox of the call is unknown, the fields about it are empty.
type Call struct {
	Op        Op
	UID       types.UID
	Namespace string
	Pod       string // the pod's name
	Container string // the container's name
	Image     string // ContainerSpec.Image
}

// Target selects calls, journal entries or containers that agree with every non-empty field. The
// zero value selects everything.
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

// String describes the selection for messages.
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
