// SPDX-License-Identifier: Apache-2.0

// Package mirror publishes static pods to the API server as mirror pods, and maps mirror pods to
// static pods.
//
// A static pod comes from a file, a URL or a bus, and is unknown to the API server. Its mirror pod
// is a copy in the API server that never runs: it makes the pod visible and carries its status. The
// smallest wiring, with client-go:
//
//	index := mirror.NewIndex()
//	client, err := mirror.NewClient(mirror.Config{
//		Pods: func(namespace string) mirror.Writer { return clientset.CoreV1().Pods(namespace) },
//		Node: func(ctx context.Context) (*v1.Node, error) { return nodes.Get(nodeName) }, // a lister
//	})
//	...
//	for update := range queue.All(ctx) { // a podconfig.Queue
//		pods, touched := index.Apply(update)
//		dispatch(update.Op, pods)
//		dispatch(podconfig.OpUpdate, touched) // their mirror pods changed or were removed
//	}
//
// In the sync of a static pod:
//
//	pod, known := index.Pair(pod)
//	_, err := client.Reconcile(ctx, pod, known)
//
// # The caller's duties
//
//  1. Apply every update to the index, in order, and do not edit the pods in it.
//  2. Reconcile a static pod on each of its syncs while it is in its source, even if it has ended
//     or was not admitted. After an error, call Reconcile again at the next sync. Never call it
//     concurrently for the same pod.
//  3. Reconcile all of Index.Statics when the node object becomes available, so that no pod waits
//     for a sync.
//  4. When all sources are ready, and periodically afterwards, call DeleteOrphans with
//     Index.Orphans, excluding pods that are still ending.
//  5. Report the status of a static pod under the UID of its mirror pod: Index.Translations.
//
// # States of a mirror pod
//
//	                     create            is edited or starts over, or a user deletes the mirror
//	(no mirror) ─────────────────────────▶ (right) ─────────────────────────────────────────▶ (wrong)
//	     ▲                                    ▲                                                 │
//	     │ static pod gone: DeleteOrphans     └───── delete with grace 0 and its UID, create ───┤
//	     └─────────────────────────────────────                                                 │
//	                                          ▲                                                 ▼
//	                                          └──── REMOVE of the old mirror: create ─── (held by finalizers)
//
// An API pod with the name of a static pod is left alone if it is not a mirror pod or belongs to
// another node (ErrNameTaken). Every deletion based on a known mirror pod names its UID, so that an
// outdated view never deletes a new mirror pod.
//
// # Failing requests
//
// The calls with requests for a name are limited, whatever the server answers and other writers do:
// a bucket holds five calls, and regains a call per 10 s. A call sends at most seven requests.
// Further calls return a *BudgetError with the time of the next possible call, and change nothing.
//
// # Goroutines and locks
//
// The package starts no goroutine. Index and Client are safe for concurrent use. Index holds no
// lock during a loop over it.
//
// # Differences from the kubelet (1.36)
//
//   - Index entries of a name are removed only if their UID matches, so that the order of REMOVE
//     and ADD does not matter.
//   - A translation is valid while both the static pod and its mirror pod exist.
//   - An existing mirror pod is checked: a correct mirror pod is kept, and an old mirror pod of
//     this node is replaced.
//   - A static pod that is removed and applied again with the same UID and manifest gets a new
//     mirror pod if the old one shows ends of containers that API servers do not undo
//     (Config.Outlived). The kubelet keeps the old mirror pod, which stays ended.
//   - If a mirror pod to be deleted is already gone, the new mirror pod is created at once rather
//     than at the next sync.
//   - While finalizers hold a deleted mirror pod, no request is sent for it.
//   - Orphans are deleted by UID. Errors of the API server are returned.
//   - A static pod without a hash annotation has a hash of its content.
//   - The mirror pod's metadata has only name, labels, annotations and owner. The kubelet copies
//     all metadata, and the API server drops the rest.
//
// IsMirrorOf and New are exported for programs that write mirror pods themselves.
package mirror
