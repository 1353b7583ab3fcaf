// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/types"
)

// Names that the tests outside the package look at.

type (
	GCAction  = gcAction
	GCInput   = gcInput
	GCOp      = gcOp
	LogFiles  = logFiles
	LogFolder = logFolder
	LogLink   = logLink
)

const (
	KillLivenessProbe     = killLivenessProbe
	KillRestartAll        = killRestartAll
	KillSpecChanged       = killSpecChanged
	KillStartupProbe      = killStartupProbe
	KillUnknownState      = killUnknownState
	KillResize            = killResize
	AnnotationResources   = annotationResources
	EventBackOff          = eventBackOff
	EventFailed           = eventFailed
	EventInspectFailed    = eventInspectFailed
	EventPulled           = eventPulled
	EventPulling          = eventPulling
	GCNone                = gcNone
	GCRemoveContainer     = gcRemoveContainer
	GCRemoveSandbox       = gcRemoveSandbox
	SandboxMissing        = sandboxMissing
	SandboxNetworkChanged = sandboxNetworkChanged
	SandboxNotReady       = sandboxNotReady
	SandboxWithoutIP      = sandboxWithoutIP
	SandboxesConflict     = sandboxesConflict
)

var (
	ErrCrashLoopBackOff      = errCrashLoopBackOff
	ErrRunning               = errRunning
	ErrCreateContainer       = errCreateContainer
	ErrCreateContainerConfig = errCreateContainerConfig
	ErrCreatePodSandbox      = errCreatePodSandbox
	ErrImageInspect          = errImageInspect
	ErrImageNeverPull        = errImageNeverPull
	ErrKillContainer         = errKillContainer
	ErrPostStartHook         = errPostStartHook
	ErrRemoveContainer       = errRemoveContainer
	ErrResizePodInPlace      = errResizePodInPlace
	ErrRunContainer          = errRunContainer
	NewHooks                 = newHooks
	PlanGC                   = planGC
	TooBrief                 = tooBrief
)

// NewHooksDialing returns the default HookRunner with a Dialer of the test's.
func NewHooksDialing(dial func(ctx context.Context, network, address string) (net.Conn, error)) HookRunner {
	return &hooks{client: newHookClient(dial)}
}

// Kept counts the facts that the manager keeps about pods.
func (m *Manager) Kept() int {
	return len(m.mu.removed) + len(m.mu.seen) + len(m.mu.failures) + len(m.resizer.mu.actuated) + len(m.images.backoff.mu.byPod) + len(m.images.flights.mu.byKey)
}

// Mark makes a pod dirty.
func (t *Tracker) Mark(uid types.UID) { t.dirty.Mark(uid) }

// String returns a line for logs and tests.
func (a gcAction) String() string {
	var what string
	switch a.Op {
	case gcRemoveContainer:
		what = fmt.Sprintf("%s %s of pod %s", a.Name, a.Container, a.UID)
		if a.Stop {
			what += ", stopped first"
		}
	case gcRemoveSandbox:
		what = fmt.Sprintf("%s of pod %s", a.Sandbox, a.UID)
	default:
		what = a.Path
	}
	return fmt.Sprintf("%s %s: %s", a.Op, what, a.Cause)
}
