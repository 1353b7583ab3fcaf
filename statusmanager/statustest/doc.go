// SPDX-License-Identifier: Apache-2.0

// Package statustest is the API server that a statusmanager.Manager writes to, in memory, for tests and simulations: pods
// with statuses that are really patched, faults on demand, and a journal of every request.
//
//	synctest.Test(t, func(t *testing.T) {
//		server, err := statustest.New(statustest.Options{Latency: 20 * time.Millisecond})
//		pod := server.Create(pod)
//		server.Inject(statustest.Fault{Nth: 2, Err: apierrors.NewTooManyRequests("later", 3)})
//
//		manager, err := statusmanager.New(statusmanager.Options{Patcher: server, Pods: server})
//		server.Watch(manager.Observed) // the feed of a watch that is never late
//		runNode(t, manager)            // the code under test
//
//		require.Equal(t, v1.PodSucceeded, server.Get(pod.UID).Status.Phase)
//		t.Log(server.Journal())
//	})
//
// A Server is a statusmanager.Patcher, Getter and Pods. Wrap it to hide the Getter.
//
// # The caller's duties
//
//  1. Run it under testing/synctest for virtual time; it works in real time too.
//  2. Give each simulated cluster its own Server. They share nothing.
//  3. Do not write to the pods it hands out or is given.
//  4. In long simulations set Options.JournalLimit.
//
// # Goroutines
//
// None. A call runs in its caller's goroutine; so does the delivery of what it changed to Watch.
//
// # What it does not emulate
//
// Authentication, admission, quotas, priority and fairness; validation of pods and statuses; managed fields; any write to
// the spec; watches that end, lag or skip. Every other resource. Use Fault for what such things would answer.
package statustest
