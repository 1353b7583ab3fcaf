// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// gcUnlimited and gcNone are special limits of a GCPolicy.
const (
	gcUnlimited = -1
	gcNone      = -2
)

// GCPolicy limits the ended instances on the node. The zero value is the kubelet's policy: one
// ended instance of each container, and any number in all.
type GCPolicy struct {
	// MinAge is the time for which every ended instance stays, also in a removed pod. The time
	// counts from the instance's end, or from its creation if the end is unknown or the instance
	// never ran. (In the kubelet the time counts from the creation, so an instance that ran for
	// longer than MinAge is removed at its end.) Defaults to 0.
	MinAge time.Duration
	// MaxPerPodContainer limits the ended instances of each container of a pod. -1: any number
	// stays. -2: only needed instances stay, which are the newest instance of a container of a
	// living pod, and instances with unreported exits. Defaults to 1.
	MaxPerPodContainer int
	// MaxContainers limits the ended instances of all pods together. -1 and -2 have the same
	// meaning as above. The limit is first divided among the containers, then the oldest instances
	// are removed. Defaults to -1.
	MaxContainers int
	// AllUnused also removes every instance and sandbox of pods in state PodOver, to free disk
	// space. It is the kubelet's DeleteAllUnusedContainers.
	AllUnused bool

	// LogRoot is the folder of the pods' log folders, absolute, equal to
	// DefaultGeneratorOptions.LogRoot. Empty: no log is removed.
	LogRoot string
	// LinkDir is the kubelet's folder of links to log files (/var/log/containers), absolute. Broken
	// links are removed. Empty: no link is removed.
	LinkDir string
}

// perContainer returns MaxPerPodContainer as a number. Negative: no limit.
func (p GCPolicy) perContainer() int { return gcLimit(p.MaxPerPodContainer, 1) }

// total returns MaxContainers as a number. Negative: no limit.
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

// PodFate is the stage of a pod's life for garbage collection.
type PodFate uint8

// The fates, in their order in a pod's life.
const (
	// PodLives: a container of the pod may be started, or the state is unknown because a source of
	// pods has not reported yet.
	PodLives PodFate = iota
	// PodOver: no container of the pod runs or will be started, but the status and logs may still
	// be requested. podworkers: ShouldPodRuntimeBeRemoved.
	PodOver
	// PodGone: the pod is neither configured nor awaiting a status update. podworkers:
	// ShouldPodContentBeRemoved.
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

// GCQuery has the caller's knowledge about pods. The functions are called without locks and
// concurrently, and must return at once.
type GCQuery struct {
	// Fate must return PodLives before any start for a pod, and until all containers of the pod
	// have ended for good. Fate is called again right before a removal that depends on the result.
	// Defaults to PodLives for every pod.
	Fate func(types.UID) PodFate
	// Reported reports whether the exit of this instance was sent to every receiver. Until then the
	// instance stays, unless the pod is gone (#104107). Defaults to false for the newest ended
	// instance of a container, and to true for older instances.
	Reported func(types.UID, ContainerID) bool
}

func (q GCQuery) fate(uid types.UID) PodFate {
	if q.Fate == nil {
		return PodLives
	}
	return q.Fate(uid)
}

// gcOp is an operation on a piece of garbage.
type gcOp string

// The operations, in the order of execution: on containers, sandboxes, logs, links.
const (
	gcRemoveContainer     gcOp = "RemoveContainer"
	gcRemoveSandbox       gcOp = "RemovePodSandbox"
	gcRemovePodLogs       gcOp = "RemovePodLogs"
	gcRemoveContainerLogs gcOp = "RemoveContainerLogs"
	gcRemoveLogLink       gcOp = "RemoveLogLink"
)

// gcAction is an operation on a piece of garbage.
type gcAction struct {
	Op   gcOp
	UID  types.UID // empty for links
	Fate PodFate   // fate of the pod at the time of the plan
	// Name is the name of the container, for RemoveContainer and RemoveContainerLogs.
	Name string
	// Container is set for RemoveContainer.
	Container ContainerID
	// Stop: the container may be running, and is stopped first.
	Stop bool
	// Sandbox is the sandbox to remove, or the sandbox of the container.
	Sandbox SandboxID
	// Path is the path to remove, separated by slashes: a pod's folder or a container's log file
	// with its rotated files, below GCPolicy.LogRoot; or a link below GCPolicy.LinkDir.
	Path  string
	Cause string // reason for the removal
}
