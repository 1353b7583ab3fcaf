// SPDX-License-Identifier: Apache-2.0

// Package podconfig says what should run: it merges what many sources say about pods into one ordered stream of changes.
//
// A source is anything that knows pods: a folder of manifests, a URL, an API server, a message bus. A Store remembers
// what each source holds and tells what a change of a source means, in the kubelet's five words and their order. A Queue
// carries that to a consumer of any speed, and Readiness tells the consumer when it knows enough to kill what no source
// has. The smallest wiring:
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
// Without goroutines: call Store.Merge with what you know and handle the updates that it returns. For a consumer that wants
// whole snapshots instead of increments there is Notifier; for a node that must boot while its sources are out of reach,
// package podconfig/checkpoint. A Merger of one's own is held to the same table as Store by package podconfigtest.
//
// # The caller's duties
//
//  1. Give each source a name that is constant and its own. The name SourceAPI is special: pods of all other sources
//     are static (IsStatic), and only there does resourceVersion count.
//  2. Handle every update, in order, before calling Readiness.Consumed with it.
//  3. Remove nothing that no source has, unless Ready (of the source in question) or AllReady says so.
//  4. Run Run, and Queue.All, in goroutines of your own, and decide what a failed source means: Run returns.
//  5. Do not edit the pods of a Change before Merge or Submit has returned, nor ever those from Pods, Get, Observed and
//     shared output. Those of an Update and a Rejection are yours.
//  6. Call no Sink from the function that Run hands updates to: it would wait for itself.
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
// A source becomes ready with its first Snapshot, whose last update has Synced set; if that Snapshot adds, updates and
// deletes nothing, an ADD without pods says so.
//
// # Names
//
// A pod is identified by source and UID. Within a source a full name belongs to one UID and a UID to one name: a pod of
// another UID that takes a name over, and a pod whose name changed, come as REMOVE and ADD. Of several pods of one name
// or UID in one Change the first counts and the others are rejected. Sources know nothing of each other: the store is
// the union of what they hold, and a pod of the same name or UID in two of them is reported (ErrConflict) but taken,
// except that a mirror pod has the name of its static pod by design.
//
// # Goroutines and locks
//
// Only Run has goroutines, one per source, and has joined them when it returns. Merging and handing over happen in the
// goroutine that called Run. Store, Queue and Readiness are safe for concurrent use, have no goroutines, and hold no
// lock while they call out.
//
// # Differences from the kubelet (1.36)
//
//   - Upsert and Remove tell what changed, at a cost that does not depend on the number of pods. The kubelet's sources
//     send all their pods every time.
//   - The caller's pods are neither edited nor kept. Equality is semantic: nil is empty, 1000m is 1, a time is the same
//     in every zone.
//   - The whole metadata of the newest object is stored. The kubelet never refreshes resourceVersion, finalizers, owner
//     references and managed fields.
//   - A pod whose name or namespace changed under the same UID is removed and added; the kubelet does not notice.
//   - A UID that appears twice in one snapshot, and a pod without UID, is rejected; conflicts between sources are
//     reported.
//   - Removals come in order of arrival, not at random.
//   - Queue coalesces instead of blocking every source after 50 updates.
//   - Readiness is per source, and opens when the last update of the first snapshot has been handled, not the first.
//   - Observed is called once per added pod, of every source, not for each pod of each snapshot.
//   - A restarted agent may seed the store with what it knew (StoreOptions.Seed, package podconfig/checkpoint); the kubelet
//     adds every pod anew, and knows none of an API server's pods until it has reached it.
//   - Everything ends with its context.
//
// The operations and their order, the empty ADD, the local annotations, the format of the first-seen time, and the
// FailedValidation event are those of the kubelet. Notification modes, SET and Sync, which 1.36 dropped, are a Notifier
// over the Store; the zero mode is an error, not a panic.
//
// # Signatures that are better than the contract's
//
//   - NewStore(StoreOptions) (*Store, error) instead of functional options; Seed and Sources are fields.
//   - Update.Synced replaces the question to the store, so Readiness needs no store: NewReadiness(sources...) and
//     Consumed(Update). With "any update will do" a delta before, or a REMOVE within, the first snapshot opened the gate.
//   - Change has the accessors Kind, Pods and UIDs, so that others can implement Merger and Sink.
//   - Store.Register returns an error for a name that is empty. Queue.Push returns one for an update that is malformed.
//   - Store.Replay tells a seed, or all that is known, as updates.
//   - Queue.Pop is the step inside Queue.All; with Queue.Ready it serves a loop that waits for other things as well.
//   - resourceVersion saves a comparison in snapshots of SourceAPI only: a manifest that was made with kubectl get -o
//     yaml carries one, too, and keeps it when it is edited.
//   - Comparison is one pass of our own that answers as equality.Semantic does, instead of reflect and then that.
package podconfig
