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

// Case is a row of the table.
type Case struct {
	// Name describes the tested behaviour. It never changes its meaning.
	Name string
	// Fault is a fault of the kubelet. The case shows its absence. Fault is empty if the case is a
	// rule of the kubelet.
	Fault string
	// Steps run in order with a fresh Merger.
	Steps []Step
}

// Step is a change of a source.
type Step struct {
	Source string
	Change podconfig.Change
	// Want is the expected result of Merge as formatted by Brief, empty for no updates.
	Want string
	// Err is the error wrapped by the error of Merge, nil for no error. After an error the Merger
	// is unchanged.
	Err error
}

// Cases returns the whole table. The caller may change it, but must not edit the pods of its
// changes.
func Cases() []Case {
	return slices.Concat(snapshotCases(), deltaCases(), contentCases(), deletionCases(), annotationCases(), duplicateCases(),
		readinessCases(), sourceCases(), faultCases(), misuseCases())
}

// Run runs every case as a subtest of t, each with a new Merger from open. The Merger need not know
// the sources in advance.
func Run(t *testing.T, open func(tb testing.TB) podconfig.Merger) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(strings.TrimSpace(c.Fault+" "+c.Name), func(t *testing.T) {
			require.NoError(t, c.Check(t.Context(), open(t)))
		})
	}
}

// Check runs the steps with a fresh Merger. It returns an error with the step and the first fault
// of the Merger, or nil.
func (c Case) Check(ctx context.Context, m podconfig.Merger) error {
	w := newWitness()
	for i, s := range c.Steps {
		if err := w.runStep(ctx, m, s); err != nil {
			return fmt.Errorf("step %d, %s of source %q: %w", i+1, s.Change.Kind(), s.Source, err)
		}
	}
	return nil
}

// runStep runs a step and checks the result.
func (w *witness) runStep(ctx context.Context, m podconfig.Merger, s Step) error {
	sent := w.copyChange(s.Change)
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
