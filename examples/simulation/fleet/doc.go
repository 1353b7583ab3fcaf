// SPDX-License-Identifier: Apache-2.0

// Package fleet runs many nodes on a real API server. Pods that are bound to the nodes become
// Running, Ready and Succeeded, are stopped and deleted, and their containers crash and restart. Each
// node is the reference agent (examples/nodeagent/node) with containers in memory.
//
//	func TestMyController(t *testing.T) {
//		fleet.Start(t, config, 3) // config comes from envtest or from a cluster for tests
//		// … create the objects of the controller, and wait for pods that are Ready
//	}
//
// Command runfleet is the program for larger fleets. The documentation of the constants has the
// annotations with which a pod scripts its containers.
//
// # Scheduling
//
// An API server without a scheduler, such as that of envtest, needs Options.Schedule. Start sets it if
// there is no kube-scheduler. A pod that does not fit has the condition PodScheduled with the message
// of kube-scheduler.
//
// # Cost
//
// All nodes of a process share a single watch of pods, and a few goroutines that register nodes and
// renew their leases. Changes of the watch are read in groups: a change waits for up to
// 50 ms. Several processes divide a fleet by Options.Shard.
//
// # The caller's duties
//
//  1. Use Config of a server whose nodes and pods may be changed: no node of a fleet runs a program.
//  2. End the context of Run, and wait for Run. Call Delete afterwards if the nodes are to go.
//
// # Goroutines
//
// Run owns all goroutines, 13 for each node without pods that change, and ends them.
//
// # What is not simulated
//
// Logs, exec, port-forward, networks and metrics: the nodes have no server. Volumes count as mounted,
// and environment variables are not resolved. Pulls take no time. See also package cluster.
package fleet
