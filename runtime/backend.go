// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"iter"
	"net"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The errors that every backend returns.
var (
	// ErrNotFound: the sandbox or container does not exist, or no longer exists.
	ErrNotFound = errors.New("not found")
	// ErrNotRunning: the container exists, but the call requires a running container.
	ErrNotRunning = errors.New("not running")
	// ErrUnsupported: the backend can never carry out the call. UnsupportedError lists the fields.
	ErrUnsupported = errors.New("unsupported by this runtime")
)

// UnsupportedError lists every field of a pod that a backend cannot honour. errors.Is(err,
// ErrUnsupported) is true for an UnsupportedError.
type UnsupportedError struct {
	Runtime string   // Runtime.Name; "" for an error of a Generator or a HookRunner
	Fields  []string // field path with the reason in brackets; in the order of the pod
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

// Runtime runs sandboxes and containers. Manager calls a Runtime, and package runtimetest checks
// the rules below.
//
//   - All methods are safe for concurrent use. The manager never has two mutating calls for a
//     container in flight.
//   - Records are durable. List and PodStatus report the effects of earlier calls, also for a new
//     value over the same state after the process died at any point. A created container that was
//     never started is StateCreated.
//   - Stop and Remove are idempotent. For a missing object they return nil or ErrNotFound. The
//     manager treats both as success.
//   - StopContainer returns nil only when the instance has exited. StopContainer sends the stop
//     signal, waits at most grace, and then kills. If ctx ends first, StopContainer returns the
//     error of ctx and leaves the instance stopping or running. A created container becomes exited
//     or stays created. In both cases no start in progress can start the container afterwards.
//   - StopSandbox kills all running containers of the sandbox at once, and makes the sandbox not
//     ready. RemoveSandbox and RemoveContainer first stop without grace. RemoveContainer keeps the
//     log files.
//   - The receiver owns the specs and statuses that are passed, except the objects behind the
//     pointers Pod and Container. No caller and no backend writes to these objects.
type Runtime interface {
	// Name is a short constant word. ContainerID.Runtime has the same word.
	Name() string
	// RunSandbox makes a sandbox. The sandbox is ready when RunSandbox returns.
	RunSandbox(ctx context.Context, spec SandboxSpec) (SandboxID, error)
	StopSandbox(ctx context.Context, id SandboxID) error
	// RemoveSandbox also removes the records of the sandbox's containers.
	RemoveSandbox(ctx context.Context, id SandboxID) error
	CreateContainer(ctx context.Context, sandbox SandboxID, spec ContainerSpec) (ContainerID, error)
	// StartContainer starts a created container. After an error no process runs. If the container's
	// program cannot be executed, the container is exited afterwards, with ReasonStartError,
	// ExitCodeStartError, the error as its message, and no StartedAt. After any other error, for
	// example the end of ctx, the container stays created. The start of a container in any other
	// state is an error.
	StartContainer(ctx context.Context, id ContainerID) error
	StopContainer(ctx context.Context, id ContainerID, grace time.Duration) error
	RemoveContainer(ctx context.Context, id ContainerID) error
	// List reports every pod that has a sandbox or container. IDs, names, sandboxes and states are
	// required. All other fields may be empty.
	List(ctx context.Context, opts ListOptions) ([]*PodStatus, error)
	// PodStatus reports a single pod with all fields. For an unknown UID the result is an empty
	// status with the UID, and no error.
	PodStatus(ctx context.Context, uid types.UID) (*PodStatus, error)
}

// ListOptions narrows List.
type ListOptions struct {
	// RunningOnly omits sandboxes that are not ready, and containers that are neither running nor
	// unknown.
	RunningOnly bool
}

// Watcher is an optional ability of a Runtime: hints about pods that may have changed without a
// call, for example because a container exited. Hints may be repeated, and hints about the caller's
// own calls may be missing. Do not rely on hints alone.
type Watcher interface {
	// Watch begins with a hint for every existing pod, so that no change between a listing and the
	// Watch is lost. Then Watch yields hints until ctx ends, which ends the sequence without an
	// error, or until the stream breaks, which yields a single error. Changes after the first hints
	// are not missed while the stream lasts. Only one call at a time is allowed.
	Watch(ctx context.Context) iter.Seq2[types.UID, error]
}

// CompleteWatcher is an optional ability of a Watcher: its hints cover every change that no call
// has caused, in any field of PodStatus, not only starts and exits. This requires that no other
// program calls the runtime, and that no call has an effect after its return. While a stream lasts,
// a pod with no work left needs no periodic syncs. Package podsync then syncs such a pod after an
// hour, looks for remains and garbage less often (see Unprompted), and does not read a pod that the
// runtime cannot know.
type CompleteWatcher interface {
	Watcher
	// WatchesAll reports whether the guarantee holds.
	WatchesAll() bool
}

// WatchesAll reports whether rt is a CompleteWatcher with the guarantee.
func WatchesAll(rt Runtime) bool {
	w, ok := rt.(CompleteWatcher)
	return ok && w.WatchesAll()
}

// completeFactor is the factor by which Unprompted lengthens an interval for a CompleteWatcher.
const completeFactor = 10

// LosslessWatcher is an optional ability of a CompleteWatcher that cannot lose a hint, such as a simulation.
type LosslessWatcher interface {
	// LosslessFactor replaces the factor ten of Unprompted.
	LosslessFactor() time.Duration
}

// Unprompted returns the time between two looks at the runtime without a hint: ten times the
// interval for a runtime that hints at each change (WatchesAll), and the interval for other
// runtimes.
func Unprompted(rt Runtime, interval time.Duration) time.Duration {
	if !WatchesAll(rt) {
		return interval
	}
	if l, ok := rt.(LosslessWatcher); ok {
		return l.LosslessFactor() * interval
	}
	return completeFactor * interval
}

// Checker is an optional ability of a Runtime, a Generator and a HookRunner: to refuse a pod before
// any work for the pod, see Manager.CheckPod. The error is an *UnsupportedError with every field
// that cannot be honoured. RunSandbox and CreateContainer of a Runtime return the same error.
type Checker interface {
	CheckPod(pod *v1.Pod) error
}

// Execer is an optional ability of a Runtime: to run a command in the environment and the working
// directory of a running container, and to wait for the end. When ctx ends, the command and the
// processes started by the command are killed.
type Execer interface {
	// Exec returns the output and the exit code. Each stream is cut at 16 KiB, and the rest is
	// discarded. err is non-nil only if the command could not be run or ctx ended.
	Exec(ctx context.Context, id ContainerID, cmd []string) (stdout, stderr []byte, exitCode int, err error)
}

// PodDialer is an optional ability of a Runtime whose pods may have addresses that only they reach: to
// connect with an address from the network of a pod. Without PodDialer, and for a pod on the host's
// network, connections begin in the host's network.
type PodDialer interface {
	// DialPod connects as net.Dialer.DialContext does.
	DialPod(ctx context.Context, pod types.UID, network, address string) (net.Conn, error)
}

// Updater is an optional ability of a Runtime: to change the resources of a running container. A
// Manager with an Updater resizes pods in place (KEP-1287).
type Updater interface {
	// UpdateResources sets the cpu and memory of the container to exactly want: a limit that is
	// missing from want is removed. All other properties and limits of the container stay.
	// Repeating the call changes nothing. The call fails unless the container runs.
	//
	// Afterwards PodStatus reports want as ContainerStatus.Resources, also for a new value over the
	// same state, as far as the backend can tell. A manager reads the reported resources once for
	// each container, when the manager is new. If a backend reports no resources, a new manager may
	// miss a resize that was reverted in between.
	UpdateResources(ctx context.Context, id ContainerID, want v1.ResourceRequirements) error
}

// MemoryMeter is an optional ability of an Updater: to report the memory use of a running container
// in bytes, as counted by the kernel against the limit. Without a MemoryMeter no memory limit is
// lowered.
type MemoryMeter interface {
	MemoryUsage(ctx context.Context, id ContainerID) (int64, error)
}

// Images is an optional ability of a Runtime: to keep images and to pull images. Without Images,
// containers are created without a look at their images.
type Images interface {
	// ImageID returns the ID of an image on the node, or "" if the image is missing. The reference
	// image is normalized: it has a tag or a digest.
	ImageID(ctx context.Context, image string) (id string, err error)
	// PullImage fetches an image and returns its ID. The end of ctx ends the pull. auth is nil for
	// an anonymous pull. An error that wraps ErrRegistryUnavailable or ErrSignatureValidationFailed
	// becomes the waiting reason of the same name.
	PullImage(ctx context.Context, image string, auth *ImageAuth) (id string, err error)
}

// ImageAuth holds the credentials for a registry. Printing an ImageAuth shows no value.
type ImageAuth struct {
	Username, Password, Auth, ServerAddress, IdentityToken, RegistryToken string
	// Secret is the namespace/name/UID of the pod's Secret with these credentials. It is empty for credentials of the
	// node, and in calls of PullImage.
	Secret string
}

// String keeps credentials out of logs and errors.
func (ImageAuth) String() string { return "(credentials)" }

// GoString keeps credentials out of output with %#v.
func (ImageAuth) GoString() string { return "(credentials)" }
