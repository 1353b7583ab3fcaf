// SPDX-License-Identifier: Apache-2.0

// Package podconfig determines the pods to run: it merges the pods of many sources into an ordered
// stream of changes.
//
// A source is any provider of pods: a folder of manifests, a URL, an API server, a message bus. A
// Store remembers the pods of each source and turns a change of a source into the kubelet's five
// operations in their order. A Queue carries the operations to a consumer of any speed. Readiness
// tells the consumer when all sources are complete, so that pods absent from every source can be
// killed. The smallest wiring:
//
//	store, err := podconfig.NewStore(podconfig.StoreOptions{})
//	...
//	queue, ready := podconfig.NewQueue(), podconfig.NewReadiness(podconfig.SourceFile)
//	go func() { ended <- podconfig.Run(ctx, store, queue.Push, files) }() // files is a Source
//	for update := range queue.All(ctx) {
//		for _, pod := range update.Pods {
//			dispatch(update.Op, pod)
//		}
//		ready.Consumed(update)
//		if ready.AllReady() {
//			cleanUp(store.Pods())
//		}
//	}
//
// A consumer of all pods, rather than of changes, uses Follow, which does all of the above:
//
//	err := podconfig.Follow(ctx, podconfig.StoreOptions{Logger: logger}, workers.SetPods, files)
//
// To work without goroutines, call Store.Merge with the known pods and handle the returned updates.
// A node that must boot without its sources uses package podconfig/checkpoint. Package
// podconfigtest tests other Mergers by the same table as Store.
//
// # The caller's duties
//
//  1. Give each source a unique and constant name. SourceAPI is special: pods of all other sources
//     are static (IsStatic), and resourceVersion counts only for SourceAPI.
//  2. Do not kill a pod because it is missing from a source before the source is complete. With
//     Follow, complete reports so for all sources. Without Follow, Ready reports so for one source
//     and AllReady for all.
//  3. Handle the failure of a source: Follow and Run return. Retry returns a source that runs again
//     after a failure.
//
// Do not edit the pods of a Change before Merge or Submit has returned, and never after Change.Given.
// Never edit pods from Pods, Get and Follow. The consumer owns the pods of an Update, unless
// StoreOptions.Shared is set, and those of a Rejection.
//
// # Without Follow
//
//   - Call Run and Queue.All in separate goroutines.
//   - Handle every update, in order, before passing it to Readiness.Consumed.
//   - Do not call a Sink from the update function passed to Run: the call would deadlock.
//
// # Life of a pod, for each source
//
//	             Snapshot, Upsert                  Snapshot without it, Remove,
//	              of a new UID                     new UID or name, Drop
//	(unknown) ───────── ADD ─────────▶ (known) ────────── REMOVE ─────────▶ (unknown)
//	                                   │     ▲
//	                                   └─────┘
//	     UPDATE: spec, labels, annotations, deletion fields     RECONCILE: status alone
//	     DELETE: as UPDATE, with a DeletionTimestamp            nothing: other metadata, other spelling
//
// A source becomes ready with its first Snapshot, and Synced is set in the last update of the
// Snapshot. If the Snapshot adds, updates and deletes no pod, an ADD without pods is sent.
//
// # Names
//
// A pod is identified by source and UID. Within a source, no two pods have the same UID or the same
// full name. A REMOVE and an ADD are sent if the name of a UID changes, and if a pod with another UID
// takes over a name. If several pods of a Change share a name or UID, the first is accepted and
// the others are rejected. Sources are independent: the store holds the union of their pods. A pod
// with the same name or UID as a pod of another source is accepted but reported (ErrConflict),
// except for a mirror pod with the name of its static pod.
//
// # Goroutines and locks
//
// Only Run has goroutines, one for each source, and joins them before it returns. Changes are
// merged and updates delivered in the goroutines that call Submit, one at a time. Store, Queue and Readiness are
// safe for concurrent use, have no goroutines, and hold no lock during calls to the outside.
//
// # Differences from the kubelet (1.36)
//
//   - Upsert and Remove carry single changes, at a cost independent of the number of pods. The
//     kubelet's sources send all their pods every time.
//   - The caller's pods are never edited, and kept only if given away (Change.Given). Equality is semantic: nil equals empty, 1000m
//     equals 1, and a time is the same in every zone.
//   - The whole metadata of the newest object is stored. The kubelet never refreshes
//     resourceVersion, finalizers, owner references and managed fields.
//   - A pod with a new name or namespace under the same UID is removed and added. The kubelet
//     ignores the new name.
//   - A pod with a duplicate UID in a snapshot or without a UID is rejected. Conflicts between
//     sources are reported.
//   - Removals are in order of arrival, not in random order.
//   - Queue coalesces instead of blocking every source after 50 updates.
//   - Readiness is per source, and begins when the last update of the first snapshot has been
//     handled. In the kubelet it begins with the first update.
//   - A pod is observed once, when it is added, not with each snapshot.
//   - A restarted agent may seed the store with its earlier pods (StoreOptions.Seed, package
//     podconfig/checkpoint). The kubelet adds every pod anew, and has no pods of an API server
//     before the first connection.
//   - Every goroutine and call ends with its context.
//
// The operations and their order, the empty ADD, the local annotations and the format of the
// first-seen time match the kubelet. The event FailedValidation is the caller's, see
// StoreOptions.Rejected.
//
// # Choices of the interface
//
//   - NewStore(StoreOptions) (*Store, error) instead of functional options; Seed is a field.
//   - Update.Synced replaces a query of the store, so that Readiness needs no store:
//     NewReadiness(sources...) and Consumed(Update). A gate opened by any update would open for a
//     delta before the first snapshot, or for a REMOVE within it.
//   - Change has the accessors Kind, Pods and UIDs, so that other packages can implement Merger and
//     Sink.
//   - Store.Register returns an error for an empty name. Queue.Push returns an error for a
//     malformed update.
//   - Store.Replay returns the seed, or all known pods, as updates.
//   - Queue.Pop is the step inside Queue.All. With Queue.Ready, Pop fits a loop with further
//     channels.
//   - resourceVersion saves a comparison only in snapshots of SourceAPI. A manifest from kubectl
//     get -o yaml has a resourceVersion, too, and keeps it across edits.
//   - Pods are compared in a single pass with the results of equality.Semantic, instead of a
//     reflect comparison followed by equality.Semantic.
package podconfig
