// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

var (
	// ErrStopped is returned by waits once the context of Run has ended. What is
	// mounted stays mounted.
	ErrStopped = errors.New("volumemanager: stopped")
	// ErrAlreadyRun is returned by the second Run of a Manager.
	ErrAlreadyRun = errors.New("volumemanager: Run was called before")
	// ErrPodTerminating: nothing is mounted for a pod in which nothing will be
	// started.
	ErrPodTerminating = errors.New("the pod is terminating")
	// ErrNoPlugin: no plugin supports the volume, or several do.
	ErrNoPlugin = errors.New("no volume plugin matched")

	errNotAttached = errors.New("the volume is not yet attached according to the node's status")
	errTimeout     = errors.New("timed out")
)

// MountError says which volumes of a pod are not ready. The lists are sorted names
// of the pod's volumes.
type MountError struct {
	PodUID types.UID
	// Unmounted are those that are not mounted.
	Unmounted []string
	// Unattached are those of Unmounted that wait for an attacher.
	Unattached []string
	// Unprocessed are those of which it is not known what they are: the claim
	// cannot be resolved, no plugin supports them, the pod has no such volume.
	Unprocessed []string
	// Err is why: the cause of ctx, context.DeadlineExceeded after
	// Options.WaitTimeout, ErrStopped or ErrPodTerminating, and how the last
	// operations on these volumes failed.
	Err error
}

func (e *MountError) Error() string {
	return fmt.Sprintf("unmounted volumes=[%s], unattached volumes=[%s], failed to process volumes=[%s]: %v",
		strings.Join(e.Unmounted, " "), strings.Join(e.Unattached, " "), strings.Join(e.Unprocessed, " "), e.Err)
}

func (e *MountError) Unwrap() error { return e.Err }

// AttachLimitError is a MountError because the node has as many volumes attached
// as it can. The kubelet (1.36) rejects the pod with the reason
// VolumeAttachmentLimitExceeded.
type AttachLimitError struct{ MountError }

func (e *AttachLimitError) Error() string {
	return "Node has reached its volume attachment limit, rejecting pod. " + e.MountError.Error()
}

func (e *AttachLimitError) Unwrap() error { return &e.MountError }

// UnmountError says which volumes a pod still has.
type UnmountError struct {
	PodUID types.UID
	// Mounted are the unique names of those that are mounted, or may be, sorted.
	Mounted []string
	// Err is why, as in MountError.
	Err error
}

func (e *UnmountError) Error() string {
	return fmt.Sprintf("mounted volumes=[%s]: %v", strings.Join(e.Mounted, " "), e.Err)
}

func (e *UnmountError) Unwrap() error { return e.Err }
