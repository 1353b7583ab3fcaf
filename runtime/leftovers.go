// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// LeftoverKind says what a Leftover is.
type LeftoverKind string

// The kinds.
const (
	LeftoverFolder  LeftoverKind = "folder"
	LeftoverProcess LeftoverKind = "process" // of a container that has ended or is gone
	LeftoverShim    LeftoverKind = "shim"    // a process that watches over a container that is gone
)

// Leftover is something on the node that a backend has made and that no sandbox or
// container of it accounts for any more: a crash came between, or a fault.
type Leftover struct {
	Kind   LeftoverKind
	Path   string    // of a folder, absolute
	PID    int       // of a process or shim
	ID     string    // of the sandbox or container that it was part of, if that is known
	PodUID types.UID // if it is known
	// Ours says that the kernel or the backend's own folder proves that this backend
	// made it and that nothing uses it. Collect removes only that.
	Ours bool
	// Why says why it is a leftover, and what proves that it is ours or is missing for
	// a proof.
	Why string
}

// Auditor is implemented by backends that can find what they have left behind.
type Auditor interface {
	// Leftovers returns what is left behind now. It changes nothing, and may be called
	// beside an agent that runs. The error joins what could not be looked at; what was
	// found is returned with it.
	Leftovers(ctx context.Context) ([]Leftover, error)
	// Collect removes a leftover that is Ours, after it has made sure that it still is
	// one. What is gone, or not a leftover any more, is no error.
	Collect(ctx context.Context, l Leftover) error
}

// CollectLeftovers removes all that a backend has left behind and that is provably its
// own. It is part of Manager.GarbageCollect. An auditor that is nil finds nothing.
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

// String names the leftover in a few words.
func (l Leftover) String() string {
	switch {
	case l.Path != "":
		return string(l.Kind) + " " + l.Path
	case l.PID != 0:
		return fmt.Sprintf("%s %d of %s", l.Kind, l.PID, l.ID)
	}
	return string(l.Kind) + " " + l.ID
}
