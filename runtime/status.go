// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ContainerID names one container instance. Its text form, "runtime://id", is
// what v1.ContainerStatus.ContainerID holds.
type ContainerID struct {
	Runtime string // Runtime.Name of the backend that made it
	ID      string // unique within that backend, never reused
}

// String returns "runtime://id", or "" for the zero value.
func (c ContainerID) String() string {
	if c == (ContainerID{}) {
		return ""
	}
	return c.Runtime + "://" + c.ID
}

// ParseContainerID is the inverse of ContainerID.String. The empty string is
// the zero ID; anything without "://" is an error.
func ParseContainerID(s string) (ContainerID, error) {
	if s == "" {
		return ContainerID{}, nil
	}
	rt, id, ok := strings.Cut(s, "://")
	if !ok || rt == "" || id == "" {
		return ContainerID{}, fmt.Errorf("container ID %q: want runtime://id", s)
	}
	return ContainerID{Runtime: rt, ID: id}, nil
}

// SandboxID names one sandbox instance within its backend.
type SandboxID string

// State is the life of a container as a backend sees it: it only ever moves
// created → running → exited, or to unknown when the backend lost track.
type State uint8

// The states. StateUnknown is the zero value on purpose: what nobody filled in
// is not known.
const (
	StateUnknown State = iota // the backend cannot tell; treated as possibly running
	StateCreated              // created, never started (or its start failed)
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

// ContainerStatus is one container instance as observed.
type ContainerStatus struct {
	ID      ContainerID
	Name    string    // the container's name in the pod spec
	Sandbox SandboxID // the sandbox it was created in
	State   State

	Hash         string // ContainerSpec.Hash it was created with
	RestartCount int32  // ContainerSpec.RestartCount it was created with

	// ExitCode, Reason, Message and FinishedAt mean something only when exited.
	ExitCode int32
	Reason   string // "Completed", "Error", "OOMKilled", …
	Message  string // the termination message, at most 4096 bytes

	Image, ImageID, ImageRef string
	LogPath                  string // absolute path of the current log file; empty = none

	CreatedAt  time.Time
	StartedAt  time.Time // zero while created
	FinishedAt time.Time // zero unless exited

	Annotations map[string]string // ContainerSpec.Annotations it was created with

	Resources *v1.ResourceRequirements // nil = the backend does not report them
	User      *v1.ContainerUser        // nil = the backend does not report it
}

// Failed reports whether the instance ended badly: a non-zero exit, an exit by
// the kernel's OOM killer whatever its code, or an unknown state.
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

// SandboxStatus is one sandbox as observed.
type SandboxStatus struct {
	ID           SandboxID
	Attempt      uint32 // SandboxSpec.Attempt it was created with
	Ready        bool
	HostNetwork  bool     // SandboxSpec.HostNetwork it was created with
	NetworkKnown bool     // the backend reports a network; then IPs is meaningful
	IPs          []string // primary first
	CreatedAt    time.Time
}

// PodStatus is everything a backend knows about one pod. Backends return both
// slices newest first (CreatedAt descending, then ID descending).
type PodStatus struct {
	UID             types.UID
	Namespace, Name string
	Sandboxes       []SandboxStatus
	Containers      []ContainerStatus
	// ObservedAt is taken before the backend looks, so that the status never
	// claims to be newer than what it saw.
	ObservedAt time.Time
}

// Latest returns the newest instance of a container over all sandboxes, or nil.
func (s *PodStatus) Latest(name string) *ContainerStatus {
	if s == nil {
		return nil
	}
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}

// Current returns the pod's current sandbox: the newest one, if it is ready.
func (s *PodStatus) Current() *SandboxStatus {
	if s == nil || len(s.Sandboxes) == 0 || !s.Sandboxes[0].Ready {
		return nil
	}
	return &s.Sandboxes[0]
}

// sandboxOf returns the sandbox that c is in, or nil if there is no record of it.
func (s *PodStatus) sandboxOf(c *ContainerStatus) *SandboxStatus {
	for i := range s.Sandboxes {
		if s.Sandboxes[i].ID == c.Sandbox {
			return &s.Sandboxes[i]
		}
	}
	return nil
}

// addressesOf are the pod's as container c knows them.
func (s *PodStatus) addressesOf(c *ContainerStatus) []string {
	if sandbox := s.sandboxOf(c); sandbox != nil {
		return sandbox.IPs
	}
	return nil
}

// Active returns the newest instance of a container in the current sandbox, or
// nil. What ran in an older sandbox (before a reboot, say) is never active.
func (s *PodStatus) Active(name string) *ContainerStatus {
	cur := s.Current()
	if cur == nil {
		return nil
	}
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && c.Sandbox == cur.ID {
			return c
		}
	}
	return nil
}

// Running returns the instances that run or may run: state running or unknown.
// The pointers point into s.
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
