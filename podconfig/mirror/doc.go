// SPDX-License-Identifier: Apache-2.0

// Package mirror shows static pods to the API server, as mirror pods, and knows which mirror belongs to which pod.
//
// A static pod comes from a file, a URL or a bus, and the API server does not know it. Its mirror pod is a copy there
// that nobody runs: it makes the pod visible and carries its status. The smallest wiring, with client-go:
//
//	index := mirror.NewIndex()
//	mirrors, err := mirror.NewClient(mirror.Config{
//		Pods: func(namespace string) mirror.Writer { return clientset.CoreV1().Pods(namespace) },
//		Node: func(ctx context.Context) (*v1.Node, error) { return nodes.Get(nodeName) }, // a lister
//	})
//	...
//	for update := range queue.All(ctx) { // of podconfig
//		pods, touched := index.Apply(update)
//		dispatch(update.Op, pods)
//		dispatch(podconfig.OpUpdate, touched) // their mirrors changed, or are gone
//	}
//
// and in the sync of a pod, if it is static:
//
//	pod, known := index.Pair(pod)
//	_, err := mirrors.Reconcile(ctx, pod, known)
//
// # The caller's duties
//
//  1. Apply every update to the index, in order, and edit no pod that is in it.
//  2. Reconcile a static pod on each of its syncs, also when it has ended or was not admitted; not when it has left its
//     source. After an error again at the next sync. Never two calls for one pod at a time.
//  3. Reconcile all of Index.Statics once the node object is there, so that nobody waits for a sync.
//  4. When all sources are ready, and now and then afterwards, DeleteOrphans of Index.Orphans, but for pods that are still
//     ending.
//  5. Report the status of a static pod under the UID of its mirror: Index.Translations.
//
// # The mirror of a static pod
//
//	                     create                      is edited, or a user deletes the mirror
//	(no mirror) ─────────────────────────▶ (right) ─────────────────────────────────────────▶ (wrong)
//	     ▲                                    ▲                                                 │
//	     │ static pod gone: DeleteOrphans     └───── delete with grace 0 and its UID, create ───┤
//	     └─────────────────────────────────────                                                 │
//	                                          ▲                                                 ▼
//	                                          └──── REMOVE of the old mirror: create ─── (held by finalizers)
//
// A pod that is no mirror, or another node's, and has the name of a static pod is left alone (ErrNameTaken). Every
// deletion that follows from something known about a mirror names its UID, so that an old view deletes nothing new.
//
// # Goroutines and locks
//
// None are started. Index and Client are safe for concurrent use; Index holds no lock while a loop over it runs.
//
// # Differences from the kubelet (1.36)
//
//   - Index entries of a name are removed only if they are of that UID, so the order of REMOVE and ADD does not matter.
//   - A translation holds as long as both the static pod and its mirror are there.
//   - A mirror that exists already is looked at: kept if it is right, replaced if it is an old one of this node.
//   - A mirror that is gone when it should be deleted is created at once, not at the next sync.
//   - While finalizers hold a deleted mirror, no call is made for it.
//   - Orphans are deleted by UID. Errors of the API server are returned.
//   - A static pod without hash annotation has a hash of its content.
//   - The mirror's metadata is no more than name, labels, annotations and owner; the kubelet copies the rest as well, and
//     the API server drops it.
//
// # Differences from the contract's sketch
//
//   - NewClient validates a Config. Reconcile returns an Outcome as well; its rule is the pure function Decide.
//   - DeleteOrphans is the orphan rule. IsMirrorOf, Hash and New are exported.
package mirror
