// SPDX-License-Identifier: Apache-2.0

// Package cluster runs many nodes on an API server in memory, in virtual time. Each node is the
// reference agent (examples/nodeagent/node) with its watch of pods (podconfig/podwatch), its status
// patches (statusmanager) and a container runtime in memory (runtime/fake).
//
//	synctest.Test(t, func(t *testing.T) {
//		c, err := cluster.New(cluster.Options{Root: t.TempDir(), Nodes: nodes})
//		go c.Run(ctx)
//		pod.Spec.NodeName = "node-7"
//		stored := c.Server().Create(pod)
//		time.Sleep(time.Minute)
//		require.Equal(t, v1.PodRunning, c.Server().Get(stored.UID).Status.Phase)
//	})
//
// A scheduler is a func that sets Spec.NodeName: package sim with backend sim/agents, or the test.
//
// # Faults
//
// Node.Lose switches a node off, and Node.Return switches it on. Node.Client cuts a running node from
// the API server, or ends its watches. Server.Compact, Server.Bookmark and Server.Inject are faults
// of the API server. Node.World has the faults of the container runtime.
//
// # The caller's duties
//
//  1. Call New and Run in a bubble of testing/synctest; real time works too, without the speed.
//  2. Delete pods on the Server, and remove ended pods, as a control plane does.
//  3. End the context of Run, and wait for Run.
//
// # Goroutines
//
// Run owns the goroutines of all agents, about ten for each node, and ends them.
//
// # What is not simulated
//
// Node objects and leases; contention of pulls for bandwidth, and full disks; networks, processes and
// volumes of drivers. See also packages statustest and fake.
package cluster
