// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
)

// Harness gives the suite access to the plugin under test.
type Harness struct {
	// Open creates a plugin and an unused volume. root is an empty folder, as Options.Root of a
	// manager. Open is called for each case. Required.
	Open func(tb testing.TB, root string) Subject
	// Skip maps the names of cases to skip to the reasons.
	Skip map[string]string
}

// Subject is a plugin and a volume of it.
type Subject struct {
	// Plugin returns a new value over the same root, as an agent does after it was killed and
	// started again. Required.
	Plugin func() volumemanager.Plugin
	// Spec is the volume. Required.
	Spec volumemanager.Spec
	// Pod edits the pod before the pod uses the volume, for a plugin that reads more of a pod than
	// name, namespace and UID. May be nil.
	Pod func(*v1.Pod)
	// Change changes the source of the volume's content, so that a refresh changes the content.
	// Required for a Refresher whose volume needs refresh.
	Change func()
	// Break makes SetUp fail until the returned func is called. nil if SetUp cannot be made to
	// fail.
	Break func() (repair func())
	// Outside are files and folders that the plugin must not change: the source of the volume, and
	// its neighbours.
	Outside []string
	// ReadOnly: containers cannot write to the volume, although the test can.
	ReadOnly bool
	// Durable: data written by containers survives TearDown.
	Durable bool
}

// testCase is a rule of the suite.
type testCase struct {
	name string
	run  func(*bench)
}

// Run checks every rule of the contract in a parallel subtest.
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
