// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
)

// Harness says how the suite gets at the plugin that is tested.
type Harness struct {
	// Open makes a plugin and a volume that nothing else uses. root is an empty
	// folder, as Options.Root of a manager. It is called once per case. Required.
	Open func(tb testing.TB, root string) Subject
	// Skip are the names of cases that are not to run, with the reason.
	Skip map[string]string
}

// Subject is one plugin and one of its volumes.
type Subject struct {
	// Plugin returns a new value over the same root, as an agent makes that was
	// killed and started again. Required.
	Plugin func() volumemanager.Plugin
	// Spec is the volume. Required.
	Spec volumemanager.Spec
	// Pod edits the pod that uses the volume before it is used: for a plugin that
	// reads more of it than name, namespace and UID. May be nil.
	Pod func(*v1.Pod)
	// Change changes the source of the volume's content, so that a refresh shows
	// something else. Required of a Refresher whose volume needs refresh.
	Change func()
	// Break makes SetUp fail until the returned func is called. nil if there is
	// no way to.
	Break func() (repair func())
	// Outside are files and folders that must be as they were when all is over:
	// the source of the volume, and what lies beside it.
	Outside []string
	// ReadOnly: containers cannot write to the volume, though the test could.
	ReadOnly bool
	// Durable: what containers write to the volume outlives TearDown.
	Durable bool
}

// testCase is one rule of the suite.
type testCase struct {
	name string
	run  func(*bench)
}

// Run checks every rule of the seam in a subtest of its own, in parallel.
func Run(t *testing.T, h Harness) {
	t.Helper()
	known := map[string]bool{}
	for _, group := range [][]testCase{setUpCases(), tearDownCases(), refreshCases(), deviceCases()} {
		for _, tc := range group {
			known[tc.name] = true
			t.Run(tc.name, func(t *testing.T) {
				if why := h.Skip[tc.name]; why != "" {
					t.Skip(why)
				}
				t.Parallel()
				tc.run(newBench(t, h))
			})
		}
	}
	for name := range h.Skip {
		if !known[name] {
			t.Errorf("volumetest: Harness.Skip names %q, which is no case", name)
		}
	}
}
