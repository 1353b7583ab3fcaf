// SPDX-License-Identifier: Apache-2.0

// Package podworkers decides when each pod is synced. Each pod UID has one state machine, which
// never runs two calls for one pod at the same time, never forgets a kill, and keeps no goroutine
// for an idle pod.
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
//	workers.SetPods(pods, true) // all that should run, whenever that changed; podconfig.Follow calls it
//	workers.Sync(uid)           // a hint: a container exited, a probe failed
//	workers.StopAll(ctx)        // at the end, if nothing is to be left running
//
// Over makes a PodSyncer from an implementation of Pods, for example runtime/podsync.
//
// SetPods is level-triggered and costs time in proportion to all pods. A large node, or a node with
// its own admission, sends the changes instead:
//
//	for u := range updates {
//		workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: u.Pod})
//	}
//	known := workers.SyncKnownPods(desired) // now and then: ends pods that are not desired
//
// # The caller's duties
//
//  1. Implement PodSyncer as its comment says, or pass Over of a podsync.Pods. Above all, return
//     nil from SyncTerminatingPod only when no container of the pod runs. Do not use the context of
//     a call for anything that outlives the call.
//  2. Pass exactly the configured pods to SetPods, and make one call at a time.
//  3. Use StopUnknown to stop pods that run in the container runtime but have no record. podsync does
//     so.
//
// Do not write to a Pod that was passed to Workers or returned by Workers.
//
// # Without SetPods
//
//   - Send UpdateCreate for an admitted pod, UpdateUpdate when the pod changed, UpdateKill when the
//     pod left the configuration, and UpdateSync for every other event of the pod. Do not send
//     updates for a pod outside the configuration, because the update would start the pod.
//   - After every source of configuration has reported, call SyncKnownPods regularly with all
//     configured pods, and create the pods missing from its result again. Otherwise finished pods are
//     never forgotten, and channels of Terminated for unknown pods never close.
//
// # A pod's life
//
// A record only moves forward. A UID starts again only after its record was forgotten.
// SyncKnownPods forgets finished records that are not desired or are to restart. With SetPods, such
// a record is forgotten at once.
//
//	                     UpdatePod, first seen
//	    name is taken │            │
//	                  ▼            │
//	              (waiting)        │
//	          name free │          │
//	                    ▼          ▼
//	State sync         SyncPod, again after a minute (Outcome.Rests: an hour)
//	                    │       │ kill (also while waiting), deletion,
//	           terminal │       │ terminal phase, not desired: ctx cancelled
//	                    ▼       ▼
//	State terminating  SyncTerminatingPod, until nil
//	                    │          (an Orphan begins here, with
//	                    │          SyncTerminatingOrphan; nil: forgotten)
//	                    ▼  Terminated closes
//	State terminated   SyncTerminatedPod, until nil
//	                    │  name passes on
//	                    ▼
//	                   Finished: a tombstone, no call
//	                    │
//	                    ▼  not desired, or restart requested
//	                   forgotten: Forgetter.Forgotten
//
// The name is that of a static pod: only one of the static pods with the same namespace and name
// runs at a time.
//
// After an error the call repeats after ten seconds, after one second for an ErrTransient, or at
// the time of RetryAfter. Without an error Outcome.Again sets the time. Any update repeats the call
// at once. Whenever the state changed during a call, the next call follows at once, whatever the
// call returned.
//
// # Goroutines
//
// Run waits for all goroutines. Besides its caller's goroutine, Run needs none. A pod has a
// goroutine only while a call for the pod is in flight. Between calls a pod is a record and at most
// one timer. Hooks and the syncer run in the goroutine of the pod.
//
// # Concurrent starts
//
// The number of calls at a time is not bounded here: a resync of a steady pod must not wait behind
// slow starts. Bound slow work (starting containers, pulling images) in the syncer.
//
// # Differences from the kubelet (1.36)
//
//   - The worker of a pod owns the retry timer. In the kubelet an outside tick must call UpdatePod,
//     so only housekeeping retries a pod after the pod left the configuration (issue 113145).
//     SyncKnownPods therefore does not repeat a termination before its retry time.
//   - Each call has its own context. A termination or a shorter grace period cancels the context
//     with a cause, also when the pod became an orphan (113606, 139823).
//   - Merged updates keep the mirror pod and the highest type, and every status function runs.
//   - Eviction and deletion are recorded whenever an update reports them, even for a finished pod.
//   - Grace periods are always concrete and at least 1: an explicit 0 is not "unset", an orphaned
//     or completed pod uses its own grace period, and a spec without a grace period gets the API
//     default of 30.
//   - Terminated closes on every path, so KillPod of a finished pod returns at once (118679). How
//     long to wait is up to the ctx of KillPod.
//   - A waiting static pod starts the moment its name is free (107733).
//   - A static pod whose first update is a kill is stopped, because containers may be left from
//     before a restart. A pod that is killed while it waits is stopped, too, because the syncer
//     publishes the final status. The kubelet calls both finished unseen.
//   - An update with both a Pod and an Orphan is refused; the kubelet drops the orphan.
//   - While a UID is being stopped as an Orphan, a Pod with the UID is not added. When the record
//     is gone, the pod is missing from the result of SyncKnownPods, and the caller adds the pod.
//   - RetryAfter is exact, without jitter (123602); "network is not ready" is an error value, not a
//     text.
//   - The content of an evicted pod may be removed only after it terminated
//     (ShouldPodContentBeRemoved, 123782).
//   - A pod that is terminal when first seen is always stopped before SyncTerminatedPod. The
//     kubelet decides from a cache, which may still be empty, that nothing runs.
//   - Pod status is no argument; the syncer reads the status itself, as fresh as needed.
//   - A panic in a syncer or hook is not recovered, and not logged first.
//
// # Choices of the interface
//
//   - SyncPod returns an Outcome, so waiting for the end of a back-off is not an error.
//   - SetPods has one complete parameter instead of two methods, because podconfig.Follow passes
//     the value on.
//   - Forgotten is an ordered call, not a listing to compare with. A syncer can drop its state
//     about a pod in Forgotten, before any call for the next pod with the same UID.
//   - New takes Options, names the bad field and starts nothing; Run is the only function to join.
//   - A nil MirrorPod means "none" in a create or update and "as before" in a sync or kill. If nil
//     always meant "as before", a syncer could never learn that the mirror pod was deleted.
//   - A RetryAfter whose time has passed retries at once, but not twice in a row, so a stale time
//     cannot cause a busy loop.
//   - WorkerInfo also has Deleted and NextSync, and Info returns the WorkerInfo of a single pod.
package podworkers
