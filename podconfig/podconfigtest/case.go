// SPDX-License-Identifier: Apache-2.0

package podconfigtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

// Case is one row of the table.
type Case struct {
	// Name says what is shown. It never changes its meaning.
	Name string
	// Fault is the fault of the kubelet that is shown to be absent; empty if the case is a rule that the kubelet follows.
	Fault string
	// Steps are taken one after the other, with a fresh Merger.
	Steps []Step
}

// Step is one change of one source.
type Step struct {
	Source string
	Change podconfig.Change
	// Want is what Merge must return, as Brief writes it; empty if nothing.
	Want string
	// Err is what the error of Merge must wrap; nil if there must be none. After an error the Merger is as it was.
	Err error
}

// Cases returns the whole table. It is the caller's to change; the pods of its changes must not be edited.
func Cases() []Case {
	return slices.Concat(snapshotCases(), deltaCases(), contentCases(), deletionCases(), annotationCases(), duplicateCases(),
		readinessCases(), sourceCases(), faultCases(), misuseCases())
}

// Run runs every case as a subtest of t, with a Merger of its own that open makes. The Merger's sources need not be
// known to it before.
func Run(t *testing.T, open func(tb testing.TB) podconfig.Merger) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(strings.TrimSpace(c.Fault+" "+c.Name), func(t *testing.T) {
			require.NoError(t, c.Check(t.Context(), open(t)))
		})
	}
}

// Check takes the steps with a fresh Merger. It returns an error that tells what the Merger did wrong in which step, nil
// if it did nothing wrong.
func (c Case) Check(ctx context.Context, m podconfig.Merger) error {
	w := newWitness()
	for i, s := range c.Steps {
		if err := w.take(ctx, m, s); err != nil {
			return fmt.Errorf("step %d, %s of source %q: %w", i+1, s.Change.Kind(), s.Source, err)
		}
	}
	return nil
}

// take lets the Merger take one step and checks everything about it.
func (w *witness) take(ctx context.Context, m podconfig.Merger, s Step) error {
	sent := w.send(s.Change)
	updates, err := m.Merge(ctx, s.Source, sent)
	if (err == nil) != (s.Err == nil) || !errors.Is(err, s.Err) {
		return fmt.Errorf("the error must be %v, it is %v", s.Err, err)
	}
	if got := Brief(updates); got != s.Want {
		return fmt.Errorf("the updates must be %q, they are %q", s.Want, got)
	}
	if err := unedited(s.Change, sent); err != nil {
		return err
	}
	if s.Err == nil {
		if err := w.check(s, updates); err != nil {
			return err
		}
	}
	ruin(updates, sent)
	return nil
}
