// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// LeftoverKind is the kind of a Leftover.
type LeftoverKind string

// The kinds.
const (
	LeftoverFolder  LeftoverKind = "folder"
	LeftoverProcess LeftoverKind = "process" // of a container that has ended or does not exist
	LeftoverShim    LeftoverKind = "shim"    // a process that supervises a container that does not exist
)

// Leftover is an object on the node that a backend has made and that belongs to no existing sandbox
// or container, because of a crash or a fault.
type Leftover struct {
	Kind   LeftoverKind
	Path   string    // of a folder, absolute
	PID    int       // of a process or shim
	ID     string    // of the sandbox or container, if known
	PodUID types.UID // if known
	// Ours: the kernel or the backend's own folder proves that this backend made the object and
	// that nothing uses it. Collect removes only such leftovers.
	Ours bool
	// Why explains why the object is a leftover, and the proof of Ours or the missing part of the
	// proof.
	Why string
}

// Auditor is an optional ability of a Runtime: to find its leftovers.
type Auditor interface {
	// Leftovers returns the present leftovers. It changes nothing, and may be called beside a
	// running agent. The error joins all failed inspections. The leftovers found are returned with
	// the error.
	Leftovers(ctx context.Context) ([]Leftover, error)
	// Collect removes a leftover that is Ours, after checking again that the object is a leftover.
	// If the object does not exist or is no longer a leftover, Collect returns nil.
	Collect(ctx context.Context, l Leftover) error
}

// CollectLeftovers removes all leftovers of a backend that are Ours. Manager.GarbageCollect calls
// it in pauses that double after the last failed changing call, up to ten minutes. For a nil
// auditor it does nothing.
func CollectLeftovers(ctx context.Context, auditor Auditor) error {
	if auditor == nil {
		return nil
	}
	found, err := auditor.Leftovers(ctx)
	errs := []error{err}
	for _, l := range found {
		if !l.Ours {
			continue
		}
		if err := auditor.Collect(ctx, l); err != nil {
			errs = append(errs, fmt.Errorf("collect %s: %w", l, err))
		}
	}
	return errors.Join(errs...)
}

// String describes the leftover in a few words.
func (l Leftover) String() string {
	switch {
	case l.Path != "":
		return string(l.Kind) + " " + l.Path
	case l.PID != 0:
		return fmt.Sprintf("%s %d of %s", l.Kind, l.PID, l.ID)
	}
	return string(l.Kind) + " " + l.ID
}
