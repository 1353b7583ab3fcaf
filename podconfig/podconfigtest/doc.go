// SPDX-License-Identifier: Apache-2.0

// Package podconfigtest is the conformance suite of podconfig.Merger: a table of changes and
// expected updates, and builders of pods for further tables.
//
// The test of a Merger passes a constructor to Run:
//
//	func TestConformance(t *testing.T) {
//		podconfigtest.Run(t, func(testing.TB) podconfig.Merger { return mymerger.New() })
//	}
//
// The table is data. Cases returns the table, for programs that print the rows, omit rows, or run rows
// with Case.Check. Each case is a list of steps, and each step is a change of a source with the
// expected updates:
//
//	podconfigtest.Case{
//		Name: "same name, new UID",
//		Steps: []podconfigtest.Step{
//			{Source: "file", Change: podconfig.Snapshot(Pod("a", "1")), Want: "ADD[a/1]+"},
//			{Source: "file", Change: podconfig.Snapshot(Pod("a", "2")), Want: "REMOVE[a/1] ADD[a/2]"},
//		},
//	}
//
// Case.Fault names a fault of kubelet 1.36.3, if the case shows the absence of a fault.
//
// # Further checks
//
// Every step of every case also checks:
//   - The caller's pods are neither edited nor kept. After each step the suite modifies them, and
//     uses the same objects again.
//   - The receiver owns the pods of updates. After each step the suite modifies them, too.
//   - Each pod in an update has the content from its source, the source's name, the first-seen time
//     of its ADD, and a mirror annotation from the first time it was sent.
//
// # Not checked
//
// Concurrency, cost, and reports about rejected pods.
//
// The suite has no goroutines and makes a Merger per case.
package podconfigtest
