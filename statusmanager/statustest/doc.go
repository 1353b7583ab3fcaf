// SPDX-License-Identifier: Apache-2.0

// Package statustest is an in-memory API server for a statusmanager.Manager, for tests and
// simulations. The server applies patches to stored pods, injects faults, and keeps a journal of every
// request.
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
// A Server is a statusmanager.Patcher, Getter and Pods. Wrap the Server to hide the Getter.
// Server.Transport connects a Patcher that speaks HTTP to the Server, without a socket.
//
// # Hostile servers
//
// Server.Poison answers the requests for one pod with a Hostility: permanent errors, webhooks, second
// writers, stale answers. RandomHostility draws a Hostility from a seed. Run tests a Manager with your
// Patcher against any number of hostile servers. Run checks the number of requests of each pod, and
// that pods with failing requests do not delay other pods:
//
//	func TestPatcher(t *testing.T) {
//		statustest.Run(t, statustest.Harness{Servers: 1000, Patcher: func(s *statustest.Server) statusmanager.Patcher {
//			return newPatcher(&http.Client{Transport: s.Transport()})
//		}})
//	}
//
// # Nodes
//
// A Client is the connection of a node. The agent of the node uses the Client as podwatch.Config.Pods,
// to list and watch pods, and as Patcher. Client.Cut separates the node from the server. As API servers
// do, Client.EndWatches ends watches, Server.Compact outdates watches, and Server.Bookmark confirms
// watches.
//
//	client := server.NewClient(10 * time.Millisecond) // a watch shows changes after 10 ms
//	source, err := podwatch.New(podwatch.Config{Pods: client, NodeName: "node-1"})
//
// # The caller's duties
//
//  1. Run the Server under testing/synctest for virtual time; real time works too.
//  2. Give each simulated cluster its own Server. Servers share nothing.
//  3. Do not write to pods passed to the Server or returned by the Server.
//  4. In long simulations set Options.JournalLimit.
//
// # Goroutines
//
// Each open watch of a Client has one goroutine, until the watch is stopped. All other calls run in the
// goroutine of the caller, including the delivery of changes to the function of Watch.
//
// # Not emulated
//
// Authentication, admission, quotas, priority and fairness; validation of pods and statuses, except
// that no container comes back from its end (statusmanager.Revives); managed fields; writes to the
// spec; pages of lists; selectors other than spec.nodeName. All other resources. Use Fault for the
// errors of such features.
package statustest
