// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// gcUnlimited and gcNone are limits of a GCPolicy.
const (
	gcUnlimited = -1
	gcNone      = -2
)

// GCPolicy limits the ended instances that stay on the node. The zero value is the kubelet's
// policy: one ended instance of each container, any number in all.
type GCPolicy struct {
	// MinAge is how long an ended instance stays in any case, also in a pod that
	// is gone. It counts from the instance's end; from its creation where the end
	// is not known or it never ran. (The kubelet counts from the creation, so
	// what ran for longer than MinAge goes as soon as it ends.) Defaults to 0.
	MinAge time.Duration
	// MaxPerPodContainer limits the ended instances of one container of one pod. -1: any number
	// stays. -2: only those stay that are still needed, which are the newest one of a container of
	// a pod that lives, and ends that are not reported yet. Defaults to 1.
	MaxPerPodContainer int
	// MaxContainers limits the ended instances of all pods together, with -1 and -2 as above. The
	// number is shared out among the containers first, then the oldest instances are removed.
	// Defaults to -1.
	MaxContainers int
	// AllUnused also takes everything of pods that are over but still known
	// (PodOver), for want of disk space: the kubelet's DeleteAllUnusedContainers.
	AllUnused bool

	// LogRoot is the folder of the pods' log folders, absolute, as
	// DefaultGeneratorOptions.LogRoot. Empty: no log is removed.
	LogRoot string
	// LinkDir is a folder of links to log files that the kubelet has left
	// (/var/log/containers), absolute. Those that lead nowhere are removed.
	// Empty: none are.
	LinkDir string
}

// perContainer returns MaxPerPodContainer as a number. Negative: any number.
func (p GCPolicy) perContainer() int { return gcLimit(p.MaxPerPodContainer, 1) }

// total returns MaxContainers as a number. Negative: any number.
func (p GCPolicy) total() int { return gcLimit(p.MaxContainers, gcUnlimited) }

func gcLimit(limit, standard int) int {
	switch limit {
	case 0:
		return standard
	case gcNone:
		return 0
	}
	return limit
}

func (p GCPolicy) validate() error {
	switch {
	case p.MinAge < 0:
		return fmt.Errorf("runtime: GCPolicy.MinAge is %s: want 0 or more", p.MinAge)
	case p.MaxPerPodContainer < gcNone:
		return fmt.Errorf("runtime: GCPolicy.MaxPerPodContainer is %d: want -2 or more", p.MaxPerPodContainer)
	case p.MaxContainers < gcNone:
		return fmt.Errorf("runtime: GCPolicy.MaxContainers is %d: want -2 or more", p.MaxContainers)
	case p.LogRoot != "" && !filepath.IsAbs(p.LogRoot):
		return fmt.Errorf("runtime: GCPolicy.LogRoot: %q is not absolute", p.LogRoot)
	case p.LinkDir != "" && !filepath.IsAbs(p.LinkDir):
		return fmt.Errorf("runtime: GCPolicy.LinkDir: %q is not absolute", p.LinkDir)
	}
	return nil
}

// PodFate is what still becomes of a pod.
type PodFate uint8

// The fates, in the order in which a pod meets them.
const (
	// PodLives: its containers may be started (again), or nobody can tell, as
	// long as not every source of pods has been heard.
	PodLives PodFate = iota
	// PodOver: nothing of it runs or will be started, but somebody may still ask
	// for its status and logs. podworkers: ShouldPodRuntimeBeRemoved.
	PodOver
	// PodGone: nobody wants it, and nobody is left to be told how it ended.
	// podworkers: ShouldPodContentBeRemoved.
	PodGone
)

// String returns the fate in small letters.
func (f PodFate) String() string {
	switch f {
	case PodOver:
		return "over"
	case PodGone:
		return "gone"
	default:
		return "lives"
	}
}

// GCQuery is what only the caller knows of pods. The funcs are called with no
// lock held, several at a time, and answer at once.
type GCQuery struct {
	// Fate must say PodLives before anything is started for a pod, and until all
	// of it has ended for good. It is asked again before anything is removed
	// because of the answer. Defaults to PodLives for every pod.
	Fate func(types.UID) PodFate
	// Reported says whether everybody who is to be told how this instance ended
	// has been told. Until then it stays, unless the pod is gone (#104107).
	// Defaults to: the newest ended instance of a container was not reported,
	// older ones were.
	Reported func(types.UID, ContainerID) bool
}

func (q GCQuery) fate(uid types.UID) PodFate {
	if q.Fate == nil {
		return PodLives
	}
	return q.Fate(uid)
}

// GCOp is what is done to a piece of garbage.
type gcOp string

// The operations: first all on containers, then all on sandboxes, logs, links.
const (
	gcRemoveContainer     gcOp = "RemoveContainer"
	gcRemoveSandbox       gcOp = "RemovePodSandbox"
	gcRemovePodLogs       gcOp = "RemovePodLogs"
	gcRemoveContainerLogs gcOp = "RemoveContainerLogs"
	gcRemoveLogLink       gcOp = "RemoveLogLink"
)

// gcAction is one piece of garbage and what is done to it.
type gcAction struct {
	Op   gcOp
	UID  types.UID // empty for links
	Fate PodFate   // the pod's when this was planned
	// Name is the container's, for RemoveContainer and RemoveContainerLogs.
	Name string
	// Container, for RemoveContainer.
	Container ContainerID
	// Stop: it may be running and is stopped first.
	Stop bool
	// Sandbox that the container is in, or that is removed.
	Sandbox SandboxID
	// Path is what is removed: of a pod's folder or of a container's log file
	// (with what was rotated from it) below GCPolicy.LogRoot, of a link below
	// GCPolicy.LinkDir. Slash-separated.
	Path  string
	Cause string // why it is garbage
}

// String is one line for logs and tests.
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
