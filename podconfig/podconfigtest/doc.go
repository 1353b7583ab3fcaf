// SPDX-License-Identifier: Apache-2.0

// Package podconfigtest is the conformance suite of podconfig.Merger: what changes of sources mean, as a table, and
// builders of pods to write tables of one's own.
//
// A test of a Merger says how to make one, and calls Run:
//
//	func TestConformance(t *testing.T) {
//		podconfigtest.Run(t, func(testing.TB) podconfig.Merger { return mymerger.New() })
//	}
//
// The table is data: Cases returns it, for a program that wants to print it, leave rows out, or run them in its own way
// with Case.Check. Each case is a list of steps, and each step one change of one source and the updates that it must yield:
//
//	podconfigtest.Case{
//		Name: "same name, new UID",
//		Steps: []podconfigtest.Step{
//			{Source: "file", Change: podconfig.Snapshot(Pod("a", "1")), Want: "ADD[a/1]+"},
//			{Source: "file", Change: podconfig.Snapshot(Pod("a", "2")), Want: "REMOVE[a/1] ADD[a/2]"},
//		},
//	}
//
// Case.Fault names the fault of kubelet 1.36.3 that a case shows to be absent, where there is one.
//
// # What is checked besides
//
// With every step of every case, that
//   - the caller's pods are neither edited nor kept: after each step they are ruined, and the same objects are used again;
//   - the pods of updates are the receiver's: after each step these are ruined, too;
//   - each pod is told with the content that its source gave, and with the source's name, the time at which it was first
//     seen, as it was at its ADD, and the mirror annotation once it had one.
//
// # What is not checked
//
// Concurrency, cost, and who is told about rejected pods.
//
// The suite has no goroutines and makes a Merger per case.
package podconfigtest
