// SPDX-License-Identifier: Apache-2.0

// Package fwk runs plug-ins of kube-scheduler, written for k8s.io/kube-scheduler/framework, in
// package sim. The plug-ins stay as they are.
//
//	scheduler, err := fwk.New(ctx, fwk.Options{Plugins: []fwk.Plugin{
//		{New: mine.New, Args: &mine.Args{…}, Weight: 5},
//	}})
//	s, err := sim.New(sim.Options{Nodes: nodes, Workload: work, Profile: scheduler.Profile()})
//	report, err := s.Run(ctx)
//	err = errors.Join(err, scheduler.Err())
//
// # Extension points
//
// A plug-in is called at each extension point that it implements: QueueSort, PreFilter with
// PreFilterExtensions, Filter, PostFilter, PreScore, Score with ScoreExtensions, Reserve and Permit.
// EventsToRegister decides about retries. Package sim has no PreEnqueue, PreBind, Bind and PostBind. New
// refuses a plug-in with such a method by the names of the plug-in and of the extension point, unless
// Plugin.Without names the extension point. A simulation has no pod groups, so that the extension points
// of pod groups are not called.
//
// Plug-ins of this package and of package sim may be mixed in a sim.Profile, such as those of New
// with kube.Preemption.
//
// # Handle
//
// The listers, NodeInfo, NominatedPodsForNode, the Run methods, waiting pods, the informers' listers
// and reads of the client set see the state of the simulation. Lists of nodes are in the order of
// sim.Snapshot.Nodes. Parallelizer.Until runs the pieces in order, in the goroutine of the caller.
//
//   - Deleting a pod in PostFilter makes the pod a victim of the preemption. A patch of a pod's status
//     has no effect.
//   - Lists of resource claims, CSI nodes and pod groups are empty. The scheduler's own objects, such
//     as volumes and namespaces, are those of Options.Objects.
//   - Event handlers of informers are not called, and HasSynced is false: no goroutine runs.
//   - The pods of the informer are those with a node.
//   - Extenders, KubeConfig, APIDispatcher and APICacher are nil.
//   - All other calls fail with the error ErrNotSimulated, which names the call. A call without an
//     error result ends its cycle, and Scheduler.Err returns the error.
//
// # Hints
//
// Package sim knows three events: a pod has left a node, a pod was bound, and a node has changed. A
// hint gets the event AssignedPod/Delete, AssignedPod/Add or Node/Add. The pod of a hint is a pod of
// the same template, without name and UID.
//
// # Differences from kube-scheduler
//
// Nominated pods are tried by repeating PreFilter on the changed state, instead of AddPod. After the
// end of a wait for Permit, the pod is tried again after a back-off, also with hints.
//
// # Ties
//
// Among nodes with equal totals, sim.HeapRoot picks as kube-scheduler 1.36 and 1.37 do with
// `parallelism: 1`. With more parallelism, the order of kube-scheduler's list is random.
//
// # Goroutines
//
// The package starts no goroutine. A Scheduler belongs to a single sim.Sim.
package fwk
