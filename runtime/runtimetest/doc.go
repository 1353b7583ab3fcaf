// SPDX-License-Identifier: Apache-2.0

// Package runtimetest is the conformance suite every runtime.Runtime backend
// passes.
//
// A backend's test says how to make the backend and calls Run:
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
// A backend of another module runs the suite as those of this one do: its test
// imports this package (which needs testify, and nothing else that package
// runtime does not), and calls Run. From nothing to a suite that passes:
//
//  1. Write Harness.Open and Subject.Reopen as above. Cases run in parallel,
//     each with its own Subject, as many at a time as go test's -parallel says.
//  2. Begin with one case, then with all. A failure begins with the sentence of
//     the seam that is broken; rules marked (implied) follow from it.
//  3. Name in Harness.Skip what cannot be kept, and say why: whoever uses the
//     backend reads it there.
//  4. Run it again under load (-count, -race, -cpu 1,8): most of what breaks in
//     backends breaks between two calls.
//
// On the command line:
//
//	go test -run 'TestConformance/RunAndExit$' ./mybackend
//	go test -run TestConformance -timeout 5m ./mybackend
//
// Cases about an optional ability run if the value has it: a runtime.Watcher,
// Execer, Checker, Streamer, StatsReader, Images, Updater, or MemoryMeter. What
// is missing shows as a skipped case (go test -v), so that an ability that is
// lost by accident, in a wrapper for one, is seen:
//
//	if _, ok := subject.Runtime.(runtime.Watcher); !ok { t.Error("…") }
//
// # The caller's duties
//
//  1. Harness.Open makes a backend over state nobody else uses. A backend over a
//     shared daemon (CRI) may hand out one state many times, because every case
//     looks only at pods it made itself, under UIDs nobody else has.
//  2. What a container shall do is a Behaviour, which is data. A backend that
//     runs real commands needs nothing more: Shell translates it to a POSIX
//     "sh -c" command (dash and busybox suffice). One that runs none sets
//     Subject.Container and Subject.Command.
//  3. Subject.Reopen models "kill -9" of the agent: the old value is dropped
//     without being closed, and a new one is made over the same state.
//  4. A backend in virtual time sets Harness.Bubble to synctest.Test.
//  5. A backend that is a runtime.Images names some in Subject.Images, one that
//     is a runtime.Checker a pod in Harness.Refused.
//  6. A backend whose containers wait for one another, or for the machine, sets
//     Harness.Unit and Patience: only failures get slower by more patience.
//
// The suite starts goroutines only within a case and waits for them. After each
// case it removes everything the case made, from List's data alone, and fails
// if anything is left.
//
// Each failure message says which sentence of the seam (the comments of
// runtime.Runtime and its neighbours) is broken, or what the seam implies.
//
// # What is not checked
//
// Mounts, termination messages, users and networks: what a backend offers there
// differs too much. Limits are checked as far as they are reported, and streams
// as far as their URLs: nobody connects. Pulls are checked where the harness
// names an image. The rest is for the backend's own tests.
package runtimetest
