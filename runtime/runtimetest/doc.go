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
// # The caller's duties
//
//  1. Harness.Open makes a backend over state nobody else uses. Cases run in
//     parallel, each with its own Subject; a backend over a shared daemon (CRI)
//     may hand out one state many times, because every case looks only at pods
//     it made itself, under UIDs nobody else has.
//  2. What a container shall do is a Behaviour, which is data. A backend that
//     runs real commands needs nothing more: Shell translates it to a POSIX
//     "sh -c" command (dash and busybox suffice). One that runs none sets
//     Subject.Container and Subject.Command.
//  3. Subject.Reopen models "kill -9" of the agent: the old value is dropped
//     without being closed, and a new one is made over the same state.
//  4. A backend in virtual time sets Harness.Bubble to synctest.Test.
//  5. A rule a backend cannot keep is named in Harness.Skip, with the reason.
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
// Mounts, image pulls, resource limits, termination messages, users and
// networks: what a backend offers there differs too much. Their tests are the
// backend's own.
package runtimetest
