// SPDX-License-Identifier: Apache-2.0

// Package podworkers decides when each pod is synced: one state machine per pod UID, which never runs two calls for one
// pod, never forgets a kill, and keeps no goroutine for an idle pod.
//
// # Wiring
//
//	workers, err := podworkers.New(podworkers.Options{
//		Syncer: syncer, // SyncPod, SyncTerminatingPod, SyncTerminatedPod
//		Logger: logger,
//	})
//	if err != nil {
//		return err
//	}
//	go workers.Run(ctx) // returns when ctx has ended and every call has returned
//
//	for u := range updates { // from podconfig, probes, the container runtime
//		workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: u.Pod})
//	}
//	known := workers.SyncKnownPods(desired) // now and then: ends what is not desired
//
// # The caller's duties
//
//  1. Implement PodSyncer as its comment says; above all, return nil from SyncTerminatingPod only when no container of
//     the pod runs, and let nothing that lives longer than a call depend on the call's context.
//  2. Send UpdateCreate for a pod that passed admission, UpdateUpdate when it changed, UpdateKill when it left the
//     configuration, UpdateSync for everything else that may concern it. Do not send any for a pod that is not
//     configured: it would be run.
//  3. Once every source of configuration has spoken, call SyncKnownPods regularly with all configured pods, and create
//     again those missing from its result. Without it finished pods are never forgotten, and channels of Terminated
//     for unknown pods never close.
//  4. Kill with an Orphan what the container runtime runs and SyncKnownPods does not know.
//  5. Do not write to a Pod that was passed in or handed out.
//
// # A pod's life
//
// One way only; the way back is to be forgotten by SyncKnownPods.
//
//	                     UpdatePod, first seen
//	     key is taken │            │            │ phase Succeeded/Failed
//	                  ▼            │            │ and AlreadyStopped
//	              (waiting)        │            └──────────────────────────┐
//	           key free │          │                                       │
//	                    ▼          ▼                                       │
//	State sync         SyncPod, again after ResyncInterval                 │
//	                    │       │ kill, deletion, terminal phase,          │
//	           terminal │       │ not desired: ctx cancelled               │
//	                    ▼       ▼                                          │
//	State terminating  SyncTerminatingPod, until nil                       │
//	                    │          (an Orphan begins here, with            │
//	                    │          SyncTerminatingOrphan; nil: forgotten)  │
//	                    ▼  Terminated closes                               │
//	State terminated   SyncTerminatedPod, until nil  ◄─────────────────────┘
//	                    │  key passes on
//	                    ▼
//	                   Finished: a tombstone, no call    ◄── killed while waiting
//	                    │
//	                    ▼  SyncKnownPods: not desired, or restart requested
//	                   forgotten
//
// An error repeats the call after Backoff, TransientBackoff or as RetryAfter says; any update repeats it at once.
// Whenever the state changed during a call, the next call follows at once, whatever the call returned.
//
// # Goroutines
//
// Run waits for all of them and starts none itself. A goroutine exists per pod while a call for it is in flight; between
// calls a pod is a record and at most one timer. Hooks and the syncer run in the goroutine of the pod.
//
// # Concurrent starts
//
// The number of calls at a time is not bounded here: a resync of a steady pod must not wait behind slow starts. Bound
// what is slow (starting containers, pulling images) where it happens.
//
// # Differences from the kubelet (1.36)
//
//   - The worker owns its retry timer. In the kubelet an outside tick must call UpdatePod, so a pod that left the
//     configuration is retried only by housekeeping (issue 113145). SyncKnownPods therefore does not repeat a
//     termination that is waiting for its retry.
//   - The context of a call is the call's own, and a termination or a shorter grace period cancels it with a cause,
//     also when the pod became an orphan (113606, 139823).
//   - Updates that are folded together keep the mirror pod and the highest type, and every status function runs.
//   - Eviction and deletion are noted whenever they arrive, even on a finished pod.
//   - Grace periods are always concrete and at least 1: an explicit 0 is not "unset", an orphaned or completed pod is
//     told its own grace period, and a spec without one means the API's default of 30.
//   - Terminated closes on every path, so KillPod of a finished or never started pod returns at once (118679). How long
//     to wait is up to the ctx of KillPod.
//   - A waiting static pod starts the moment its name is free (107733).
//   - A static pod that is first heard of as a kill is stopped, since it may have containers from before a restart; the
//     same holds for a waiting one of which the runtime reports containers. The kubelet calls both finished unseen.
//   - An update with both a Pod and an Orphan is refused; the kubelet drops the orphan.
//   - A Pod whose UID is just being stopped as an Orphan is not taken in: the record goes away and the caller, who finds
//     it missing in SyncKnownPods, adds it.
//   - RetryAfter is exact, without jitter (123602); "network is not ready" is an error value, not a text.
//   - The content of an evicted pod may be removed only after it terminated (ShouldPodContentBeRemoved, 123782).
//   - Whether a pod that is over needs no stopping is answered by AlreadyStopped, not by a cache that may be empty.
//   - Pod status is no argument; the syncer reads what it needs, as fresh as it needs it.
//   - A panic in a syncer or hook is not recovered, and not logged first.
//
// # Choices of the interface
//
//   - New takes Options, names the bad field and starts nothing; Run is the only thing that has to be joined.
//   - A nil MirrorPod means "none" in a create or update and "as before" in a sync or kill. If nil always meant "as
//     before", a syncer could never learn that the mirror pod was deleted.
//   - A RetryAfter whose time has passed retries at once, but not twice in a row, so that a stale time cannot spin.
//   - WorkerInfo also has Deleted and NextSync, and Info returns that of one pod.
package podworkers
