// SPDX-License-Identifier: Apache-2.0

// Package runtimetest is the conformance suite of runtime.Runtime backends.
//
// The test of a backend makes the backend and calls Run:
//
//	func TestConformance(t *testing.T) {
//		runtimetest.Run(t, runtimetest.Harness{
//			Open: func(tb testing.TB) *runtimetest.Subject {
//				root := tb.TempDir()
//				open := func() runtime.Runtime { … a new backend value over root … }
//				return &runtimetest.Subject{
//					Runtime: open(),
//					Reopen:  func(tb testing.TB, meanwhile func()) runtime.Runtime { meanwhile(); return open() },
//					Logs:    filepath.Join(root, "logs"),
//				}
//			},
//			Unit: 50 * time.Millisecond,
//		})
//	}
//
// # Your own backend
//
// A backend in another module runs the suite in the same way. The only dependency beyond those of
// package runtime is testify. The steps to a passing suite:
//
//  1. Write Harness.Open and Subject.Reopen as above. Cases run in parallel, each with its own
//     Subject. The flag -parallel of go test limits their number.
//  2. Begin with a single case. A failure message begins with the broken rule of the seam. Rules
//     marked (implied) follow from the written rules.
//  3. List unsupported cases in Harness.Skip with the reason, for the users of the backend.
//  4. Run the suite under load (-count, -race, -cpu 1,8), because most faults of backends are races
//     between two calls.
//
// On the command line:
//
//	go test -run 'TestConformance/RunAndExit$' ./mybackend
//	go test -run TestConformance -timeout 5m ./mybackend
//
// Cases about an optional ability run only if the value implements the ability: runtime.Watcher,
// Execer, Checker, Streamer, stats.Reader, Images, Updater, or MemoryMeter. Otherwise the case is
// skipped, which go test -v shows. If a wrapper around a backend could hide an ability, let your test
// check the wrapper:
//
//	if _, ok := subject.Runtime.(runtime.Watcher); !ok { t.Error("…") }
//
// # The caller's duties
//
//  1. Harness.Open makes a backend over separate state. A backend over a shared daemon (CRI) may
//     return the same state several times, because a case handles only its own pods, which have
//     random UIDs.
//  2. A Behaviour describes a container as data. For a backend that runs commands, Shell translates
//     a Behaviour into a POSIX "sh -c" command (dash and busybox suffice). For other backends set
//     Subject.Container and Subject.Command.
//  3. Subject.Reopen simulates "kill -9" of the agent: it drops the old value without closing it,
//     and makes a new value over the same state.
//  4. For a backend in virtual time, set Harness.Bubble to synctest.Test.
//  5. For a backend with runtime.Images, set Subject.Images. With runtime.Checker, set
//     Harness.Refused.
//  6. For slow backends raise Harness.Unit and Patience. Patience delays failing cases only.
//
// The suite starts goroutines within a case only, and waits for their ends. At its end, a case
// removes all its objects, using only the results of List, and fails if an object remains.
//
// A failure message has the broken rule: a sentence from the comments of runtime.Runtime and its
// optional interfaces, or an implied rule.
//
// # Not checked
//
// Mounts, termination messages, users and networks differ too much between backends. Limits are
// checked only if they are reported. Of streams only the URLs are checked, without a connection.
// Pulls are checked if the harness names an image. Everything else is up to the backend's own
// tests.
package runtimetest
