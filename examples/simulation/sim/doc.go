// SPDX-License-Identifier: Apache-2.0

// Package sim simulates schedulers: a workload arrives at a cluster of many nodes, a Profile places
// the pods, and a Backend runs them in virtual time.
//
//	s, err := sim.New(sim.Options{
//		Nodes:    nodes,
//		Workload: sim.Arrivals{…},
//		Profile:  kube.Profile(),
//		Seed:     1,
//	})
//	report, err := s.Run(ctx)
//
// # Profiles
//
// A Profile is a set of functions under the names of the framework of kube-scheduler: QueueSort
// (Less), PreFilter, Filter, PostFilter, PreScore, Score, Normalize, Reserve and Permit. Package
// sim/kube has the plug-ins of kube-scheduler, and package sim/openb has policies for GPUs. A
// plug-in that depends on the pod's template and on a single node is marked with the method Local.
// Its results are kept until the node changes, so a decision costs as much as the changes since the
// last pod of the same Shape.
//
// # Time
//
// Events are in order of (time, UID of the pod). At one instant, the events of the backend come
// first, then submissions, faults and timers in the order in which they were planned, then
// scheduling cycles. All random numbers come from Options.Seed, so equal options give an equal
// journal, byte for byte.
//
// # Backends
//
// Timers knows durations alone. Package sim/agents runs each pod with the real agent of its node.
// Options.Backend accepts other backends.
//
// # Goroutines
//
// A Sim owns no goroutine that outlives Run. A Sim is for a single goroutine.
//
// # Differences from kube-scheduler 1.36
//
//   - The outcome of a cycle takes effect at once.
//   - A gang is placed in a single group cycle, and waits for an event after a failure. The group
//     cycle of kube-scheduler repeats after a back-off.
//   - Trials of preemption repeat PreFilter on a Snapshot with the changes. AddPod and RemovePod of
//     PreFilterExtensions are not needed.
//   - Hints are grouped: pods of the same Shape that the same plug-ins refused are tried together.
//   - A hint is not asked for pods that were nominated and wait for the end of their victims. A change
//     of the taints of the nominated node makes such a pod try again at once, if the node is lost.
//     kube-scheduler tries again within 5 minutes.
//
// # Not modelled
//
// Contention for CPU, memory, disk or network; volumes; extenders; opportunistic batching;
// scheduling gates; pods that grow or shrink; the API server's limits.
package sim
