// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Errors every backend speaks.
var (
	// ErrNotFound says that the sandbox or container does not exist (any more).
	ErrNotFound = errors.New("not found")
	// ErrNotRunning says that the container exists, and does not run (any more),
	// as it would have to for what was asked.
	ErrNotRunning = errors.New("not running")
	// ErrUnsupported says that the backend cannot do what was asked, now or
	// later. UnsupportedError carries the list.
	ErrUnsupported = errors.New("unsupported by this runtime")
)

// UnsupportedError lists everything of one pod that a backend cannot honour.
// errors.Is(err, ErrUnsupported) is true for it.
type UnsupportedError struct {
	Runtime string   // Runtime.Name; "" if a Generator or a HookRunner says so by itself
	Fields  []string // field path and, in brackets, why; sorted as in the pod
}

func (e *UnsupportedError) Error() string {
	who := ""
	if e.Runtime != "" {
		who = "the " + e.Runtime + " runtime "
	}
	return who + "cannot honour: " + strings.Join(e.Fields, ", ")
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Runtime runs sandboxes and containers. It is what Manager calls and what
// package runtimetest checks.
//
//   - All methods are safe for concurrent use; the manager never has two
//     mutating calls for one container in flight.
//   - Records are durable: what a method has done is what List and PodStatus
//     report, also from a new value over the same state after the process died
//     at any point. A created container that was never started is StateCreated.
//   - Stop and Remove are idempotent. They return nil or ErrNotFound for what
//     is gone; the manager treats both as success.
//   - StopContainer returns nil only when the instance is exited. It asks
//     politely, waits at most grace, then kills. A ctx that ends first makes it
//     return ctx's error and leaves the instance stopping or running.
//     A container that is merely created becomes exited or is left created; it
//     can never be started afterwards by a start that was under way.
//   - StopSandbox kills what still runs in the sandbox, at once, and makes it
//     not ready. RemoveSandbox and RemoveContainer stop first (no grace).
//     RemoveContainer keeps the log files.
//   - Specs and statuses passed across belong to the receiver, except what they
//     point to in Pod and Container, which nobody writes.
type Runtime interface {
	// Name is a short constant word, the Runtime of every ContainerID.
	Name() string
	// RunSandbox makes a sandbox that is ready when it returns.
	RunSandbox(ctx context.Context, spec SandboxSpec) (SandboxID, error)
	StopSandbox(ctx context.Context, id SandboxID) error
	// RemoveSandbox also removes the records of its containers.
	RemoveSandbox(ctx context.Context, id SandboxID) error
	CreateContainer(ctx context.Context, sandbox SandboxID, spec ContainerSpec) (ContainerID, error)
	// StartContainer starts a created container. When it fails nothing runs, and
	// the container stays created, or is exited where the backend's own rules say
	// so. Starting one that is not created is an error.
	StartContainer(ctx context.Context, id ContainerID) error
	StopContainer(ctx context.Context, id ContainerID, grace time.Duration) error
	RemoveContainer(ctx context.Context, id ContainerID) error
	// List reports every pod that has a sandbox or container. IDs, names,
	// sandboxes and states suffice; the rest may be left out.
	List(ctx context.Context, opts ListOptions) ([]*PodStatus, error)
	// PodStatus reports one pod in full. An unknown UID is an empty status with
	// that UID, not an error.
	PodStatus(ctx context.Context, uid types.UID) (*PodStatus, error)
}

// ListOptions narrow List.
type ListOptions struct {
	// RunningOnly leaves out sandboxes that are not ready and containers that
	// are neither running nor unknown.
	RunningOnly bool
}

// Watcher is an optional ability of a Runtime: hints that something about a pod
// may have changed by itself (a container exited). It is never the only source
// of truth, may repeat itself and may leave out what the caller itself did.
type Watcher interface {
	// Watch begins with a hint for every pod that exists, so that nothing falls
	// between a listing and it. Then it yields until ctx ends (it just stops) or
	// the stream breaks (it yields one error and stops). Changes after the first
	// hints are not missed while the stream lasts. One caller at a time.
	Watch(ctx context.Context) iter.Seq2[types.UID, error]
}

// Checker is an optional ability of a Runtime, and of a Generator and a HookRunner:
// to refuse a pod before anything is done for it; see Manager.CheckPod. A refusal is
// an *UnsupportedError that lists every field that cannot be honoured; RunSandbox and
// CreateContainer of a Runtime return the same error.
type Checker interface {
	CheckPod(pod *v1.Pod) error
}

// Execer is an optional ability of a Runtime: to run a command beside a running
// container, with its environment and working directory, and to wait for it.
// When ctx ends the command and what it started are killed.
type Execer interface {
	// Exec returns the output (each stream cut at 16 KiB, the rest discarded)
	// and the exit code. err is non-nil only if the command could not be run or
	// ctx ended.
	Exec(ctx context.Context, id ContainerID, cmd []string) (stdout, stderr []byte, exitCode int, err error)
}

// Updater is an optional ability of a Runtime: to change what a running
// container may use. A Manager over one resizes pods in place (KEP-1287).
type Updater interface {
	// UpdateResources gives the container exactly the cpu and memory that want
	// says: a limit that is not in it is taken away. Nothing else about the
	// container changes, in particular no other limit that it was created with.
	// Doing it again changes nothing. It is an error unless the container runs.
	//
	// From then on PodStatus reports want as ContainerStatus.Resources, also to a
	// new value over the same state, as far as the backend can tell. A manager
	// goes by that once for each container, when it is new: a backend that tells
	// nothing may make it miss a resize that was taken back in between.
	UpdateResources(ctx context.Context, id ContainerID, want v1.ResourceRequirements) error
}

// MemoryMeter is an optional ability of an Updater: to tell how much memory a
// running container uses, in bytes, as the kernel counts it against the limit.
// Without it no memory limit is lowered.
type MemoryMeter interface {
	MemoryUsage(ctx context.Context, id ContainerID) (int64, error)
}

// Images is an optional ability of a Runtime: to keep images and to pull them.
// A backend without it is never asked about images.
type Images interface {
	// ImageID returns the ID of an image that is here, "" if it is not. image is
	// a normalized reference: it has a tag or a digest.
	ImageID(ctx context.Context, image string) (id string, err error)
	// PullImage fetches an image, for as long as ctx allows, and returns its ID.
	// auth is nil for an anonymous pull. An error that wraps
	// ErrRegistryUnavailable or ErrSignatureValidationFailed becomes that reason.
	PullImage(ctx context.Context, image string, auth *ImageAuth) (id string, err error)
}

// ImageAuth is what a registry wants to see. It prints as nothing.
type ImageAuth struct {
	Username, Password, Auth, ServerAddress, IdentityToken, RegistryToken string
}

// String keeps credentials out of logs and errors.
func (ImageAuth) String() string { return "(credentials)" }

// GoString does so for %#v.
func (ImageAuth) GoString() string { return "(credentials)" }
