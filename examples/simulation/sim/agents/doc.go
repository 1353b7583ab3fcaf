// SPDX-License-Identifier: Apache-2.0

// Package agents is the backend of package sim with the real code of nodes: each node of a simulation
// is the reference agent of package cluster, and each pod is an object on the API server in memory.
//
//	synctest.Test(t, func(t *testing.T) {
//		backend, stop := agents.New(agents.Options{Nodes: nodes, Root: t.TempDir()})
//		s, err := sim.New(sim.Options{Nodes: nodes, Workload: work, Profile: kube.Profile(), Backend: backend})
//		report, err := s.Run(t.Context())
//		err = stop()
//	})
//
// With the same options, sim.Timers and this backend give the same placements, as long as the model
// has all durations that pods have: the agents add none.
//
// NewAPI and RunAPI run the same agents on a real API server, in real time, by package fleet. Placements
// there depend on the real durations of requests.
//
// # The caller's duties
//
//  1. Call sim.New and Sim.Run in a bubble of testing/synctest, by a single goroutine. Outside of a
//     bubble, Sim.Run panics. The agents of NewAPI need no bubble.
//  2. Call stop in the same bubble, after the run.
//
// # Differences from sim.Timers
//
//   - A container is ready at the first success of its readiness probe, and not exactly after
//     Shape.ReadyAfter.
//   - A pod that a node refuses, such as for an unknown taint or a lack of resources, ends the run
//     with an error. In package sim, nodes refuse no pods.
//   - Restarts after the loss of a node follow the back-off of containers.
//   - The grace period of an eviction is rounded up to seconds.
//   - On a real API server, the node objects of lost nodes stay Ready, and the priorities of pods are those
//     of the API server. A run that falls behind real time handles its events late.
//
// # Goroutines
//
// A backend owns those of its cluster, until stop returns.
package agents
