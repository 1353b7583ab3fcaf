// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Overlap is a pair of instances of the same container that ran at the same time.
type Overlap struct {
	UID            types.UID
	Namespace, Pod string
	Container      string
	Older, Newer   string        // the container IDs
	At             time.Duration // start of the newer instance, since the World was made
}

func (o Overlap) String() string {
	return fmt.Sprintf("%s/%s/%s: %s started at %v while %s was running", o.Namespace, o.Pod, o.Container, o.Newer, o.At, o.Older)
}

const keptOverlaps = 100

// overlap records that newer starts while older runs. World.mu is held.
func (w *World) overlap(older, newer *container) {
	if len(w.mu.overlaps) == keptOverlaps {
		return
	}
	w.mu.overlaps = append(w.mu.overlaps, Overlap{
		UID: newer.pod.uid, Namespace: newer.pod.namespace, Pod: newer.pod.name, Container: newer.spec.Name,
		Older: older.id, Newer: newer.id, At: time.Since(w.born),
	})
}

// NoOverlap returns nil if no container ever had two running instances at the same time. NoOverlap
// covers the World's whole life, independent of the journal. The error lists the first hundred
// overlaps.
func (w *World) NoOverlap() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, o := range w.mu.overlaps {
		errs = append(errs, errors.New(o.String()))
	}
	return errors.Join(errs...)
}

// Count returns the number of journal entries that the target selects. Dropped entries are not
// counted: see Total.
func (w *World) Count(target Target) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for e := range w.mu.journal.all() {
		if target.matches(e.Call) {
			n++
		}
	}
	return n
}

// Before returns nil if the earliest entry selected by first precedes the earliest entry selected by
// second. Before fails if one of these entries is missing, or if the journal has dropped entries.
func (w *World) Before(first, second Target) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.mu.journal.dropped; n > 0 {
		return fmt.Errorf("the journal has dropped %d entries: cannot tell whether %s came before %s", n, first, second)
	}
	i, sawFirst, sawSecond := 0, -1, -1
	for e := range w.mu.journal.all() {
		if sawFirst < 0 && first.matches(e.Call) {
			sawFirst = i
		}
		if sawSecond < 0 && second.matches(e.Call) {
			sawSecond = i
		}
		i++
	}
	switch {
	case sawFirst < 0:
		return fmt.Errorf("%s never happened", first)
	case sawSecond < 0:
		return fmt.Errorf("%s never happened", second)
	case sawFirst >= sawSecond:
		return fmt.Errorf("%s (entry %d) did not come before %s (entry %d)", first, sawFirst, second, sawSecond)
	}
	return nil
}
