// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

var (
	// ErrStopped is returned by waiting calls once the context of Run has ended. Mounted volumes
	// stay mounted.
	ErrStopped = errors.New("volumemanager: stopped")
	// ErrAlreadyRun is returned by the second Run of a Manager.
	ErrAlreadyRun = errors.New("volumemanager: Run was called before")
	// ErrPodTerminating: no volume is mounted, because no further container of the pod will be
	// started.
	ErrPodTerminating = errors.New("the pod is terminating")
	// ErrNoPlugin: no plugin supports the volume, or several do.
	ErrNoPlugin = errors.New("no volume plugin matched")

	errNotAttached = errors.New("the volume is not yet attached according to the node's status")
	errTimeout     = errors.New("timed out")
)

// MountError lists the volumes of a pod that are not ready. The lists contain the pod's names for
// the volumes, sorted.
type MountError struct {
	PodUID types.UID
	// Unmounted are the volumes that are not mounted.
	Unmounted []string
	// Unattached are the volumes of Unmounted that wait for an attacher.
	Unattached []string
	// Unprocessed are the unresolved volumes: the claim cannot be resolved, no plugin supports the
	// volume, or the pod has no such volume.
	Unprocessed []string
	// Err is the reason: the cause of ctx, context.DeadlineExceeded after 2 min 3 s,
	// ErrStopped or ErrPodTerminating, with the errors of the last operations on these volumes.
	Err error
}

func (e *MountError) Error() string {
	return fmt.Sprintf("unmounted volumes=[%s], unattached volumes=[%s], failed to process volumes=[%s]: %v",
		strings.Join(e.Unmounted, " "), strings.Join(e.Unattached, " "), strings.Join(e.Unprocessed, " "), e.Err)
}

func (e *MountError) Unwrap() error { return e.Err }

// AttachLimitError is a MountError for a node at its attach limit. The kubelet (1.36) rejects the
// pod with the reason VolumeAttachmentLimitExceeded.
type AttachLimitError struct{ MountError }

func (e *AttachLimitError) Error() string {
	return "Node has reached its volume attachment limit, rejecting pod. " + e.MountError.Error()
}

func (e *AttachLimitError) Unwrap() error { return &e.MountError }

// UnmountError lists the volumes that a pod still has.
type UnmountError struct {
	PodUID types.UID
	// Mounted are the unique names of mounted and uncertain volumes, sorted.
	Mounted []string
	// Err is the reason, as in MountError.
	Err error
}

func (e *UnmountError) Error() string {
	return fmt.Sprintf("mounted volumes=[%s]: %v", strings.Join(e.Mounted, " "), e.Err)
}

func (e *UnmountError) Unwrap() error { return e.Err }
