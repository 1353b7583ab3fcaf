// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ContainerID identifies a container instance. The text form "runtime://id" is the form of
// v1.ContainerStatus.ContainerID.
type ContainerID struct {
	Runtime string // Runtime.Name of the backend
	ID      string // unique within the backend, never reused
}

// String returns "runtime://id", or "" for the zero value.
func (c ContainerID) String() string {
	if c == (ContainerID{}) {
		return ""
	}
	return c.Runtime + "://" + c.ID
}

// ParseContainerID is the inverse of ContainerID.String. The result for the empty string is the
// zero ID. A text without "://" is an error.
func ParseContainerID(s string) (ContainerID, error) {
	if s == "" {
		return ContainerID{}, nil
	}
	rt, id, _ := strings.Cut(s, "://")
	if rt == "" || id == "" {
		return ContainerID{}, fmt.Errorf("container ID %q: want runtime://id", s)
	}
	return ContainerID{Runtime: rt, ID: id}, nil
}

// SandboxID identifies a sandbox within its backend.
type SandboxID string

// State is the state of a container in a backend. The only transitions are created → running →
// exited, and any state → unknown if the backend lost track.
type State uint8

// The states. StateUnknown is the zero value on purpose: an unset state is unknown.
const (
	StateUnknown State = iota // the backend cannot tell; treated as possibly running
	StateCreated              // created, and never started successfully
	StateRunning
	StateExited
)

// String returns the state in the CRI's lower-case words.
func (s State) String() string {
	switch s {
	case StateCreated:
		return "created"
	case StateRunning:
		return "running"
	case StateExited:
		return "exited"
	default:
		return "unknown"
	}
}

// ContainerStatus is the observed status of a container instance.
type ContainerStatus struct {
	ID      ContainerID
	Name    string    // name in the pod spec
	Sandbox SandboxID // sandbox of the container
	State   State

	Hash         string // ContainerSpec.Hash at creation
	RestartCount int32  // ContainerSpec.RestartCount at creation

	// ExitCode, Reason, Message and FinishedAt are valid only for an exited instance.
	ExitCode int32
	Reason   string // "Completed", "Error", "OOMKilled", …
	Message  string // the termination message, at most 4096 bytes

	Image, ImageID, ImageRef string
	LogPath                  string // absolute path of the current log file; empty = none

	CreatedAt  time.Time
	StartedAt  time.Time // zero while created
	FinishedAt time.Time // zero unless exited

	Annotations map[string]string // ContainerSpec.Annotations at creation

	Resources *v1.ResourceRequirements // nil = the backend does not report them
	User      *v1.ContainerUser        // nil = the backend does not report it
}

// Failed reports whether the instance failed: a non-zero exit code, a kill by the kernel's OOM
// killer with any exit code, or an unknown state.
func (c *ContainerStatus) Failed() bool {
	switch c.State {
	case StateExited:
		return c.ExitCode != 0 || c.Reason == ReasonOOMKilled
	case StateUnknown:
		return true
	default:
		return false
	}
}

// SandboxStatus is the observed status of a sandbox.
type SandboxStatus struct {
	ID           SandboxID
	Attempt      uint32 // SandboxSpec.Attempt at creation
	Ready        bool
	HostNetwork  bool     // SandboxSpec.HostNetwork at creation
	NetworkKnown bool     // the backend reports a network, and IPs is valid
	IPs          []string // primary first
	CreatedAt    time.Time
}

// PodStatus is the observed status of a pod. Backends return both slices in the order newest first
// (CreatedAt descending, then ID descending).
type PodStatus struct {
	UID             types.UID
	Namespace, Name string
	Sandboxes       []SandboxStatus
	Containers      []ContainerStatus
	// ObservedAt is the time before the backend began to read the state. Changes after ObservedAt
	// may be missing.
	ObservedAt time.Time
}

// Latest returns the newest instance of a container over all sandboxes, or nil. An instance that never ran
// counts only if its restart count is above that of every instance that ran.
func (s *PodStatus) Latest(name string) *ContainerStatus {
	if s == nil {
		return nil
	}
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && !s.overtaken(c) {
			return c
		}
	}
	return nil
}

// overtaken reports whether c never ran, and an instance with at least its restart count did.
// A listing without times has no counts either.
func (s *PodStatus) overtaken(c *ContainerStatus) bool {
	return !c.CreatedAt.IsZero() && slices.ContainsFunc(s.Containers, func(other ContainerStatus) bool {
		return other.Name == c.Name && overtakes(&other, c)
	})
}

// overtakes reports whether c never ran, and other did with at least c's restart count. An earlier agent had
// asked for c, and the runtime made c after other. So c is no successor.
func overtakes(other, c *ContainerStatus) bool {
	return c.State == StateCreated && other.State != StateCreated && other.RestartCount >= c.RestartCount
}

// Current returns the pod's current sandbox, or nil. The current sandbox is the newest sandbox, if
// that sandbox is ready.
func (s *PodStatus) Current() *SandboxStatus {
	if s == nil || len(s.Sandboxes) == 0 || !s.Sandboxes[0].Ready {
		return nil
	}
	return &s.Sandboxes[0]
}

// sandboxOf returns the sandbox of c, or nil if the sandbox has no record.
func (s *PodStatus) sandboxOf(c *ContainerStatus) *SandboxStatus {
	for i := range s.Sandboxes {
		if s.Sandboxes[i].ID == c.Sandbox {
			return &s.Sandboxes[i]
		}
	}
	return nil
}

// addressesOf returns the addresses of the sandbox of container c.
func (s *PodStatus) addressesOf(c *ContainerStatus) []string {
	if sandbox := s.sandboxOf(c); sandbox != nil {
		return sandbox.IPs
	}
	return nil
}

// Active returns the newest instance of a container in the current sandbox, or nil, with the exception of
// Latest. An instance of an older sandbox, for example of a sandbox before a reboot, is never active.
func (s *PodStatus) Active(name string) *ContainerStatus {
	cur := s.Current()
	if cur == nil {
		return nil
	}
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && c.Sandbox == cur.ID && !s.overtaken(c) {
			return c
		}
	}
	return nil
}

// Running returns the instances in state running or unknown, which may run. The pointers point into
// s.
func (s *PodStatus) Running() []*ContainerStatus {
	if s == nil {
		return nil
	}
	var out []*ContainerStatus
	for i := range s.Containers {
		if st := s.Containers[i].State; st == StateRunning || st == StateUnknown {
			out = append(out, &s.Containers[i])
		}
	}
	return out
}

// exited reports whether every container has exited. No container of the pod starts again without
// StartContainer.
func (s *PodStatus) exited() bool {
	return !slices.ContainsFunc(s.Containers, func(c ContainerStatus) bool { return c.State != StateExited })
}

// withoutReadySandbox returns a copy of s after StopSandbox of each sandbox.
func (s *PodStatus) withoutReadySandbox() *PodStatus {
	stopped := *s
	stopped.Sandboxes = slices.Clone(s.Sandboxes)
	for i := range stopped.Sandboxes {
		stopped.Sandboxes[i].Ready = false
	}
	return &stopped
}
