// SPDX-License-Identifier: Apache-2.0

// Package volumemanager gives the pods of a node their volumes: what a pod needs is mounted as soon as that is possible,
// and unmounted when the pod is positively gone, never before, whatever happens to the agent in between.
//
// # Wiring
//
//	empty, err := emptydir.New(emptydir.Options{}) // and more from volumemanager/plugins
//	...
//	manager, err := volumemanager.New(volumemanager.Options{
//		Pods:    workers, // *podworkers.Workers
//		Root:    "/var/lib/agent",
//		Plugins: []volumemanager.Plugin{empty},
//		Logger:  logger,
//	})
//	if err != nil {
//		return err
//	}
//	go manager.Run(ctx) // returns when ctx has ended and every operation has returned
//
//	err = manager.WaitForAttachAndMount(ctx, pod)        // in each sync of a pod, before its containers are started
//	volumes := manager.GetMountedVolumesForPod(pod.UID)  // where containers find them
//	err = manager.WaitForUnmount(ctx, pod.UID)           // when nothing of the pod runs any more
//	err = manager.CleanupOrphans(ctx, keep)              // now and then
//
// Package apiserver below this one has Claims, Node and the getters of ConfigMaps, Secrets and tokens for an API server;
// package volumetest has a fake plugin, and the suite that a plugin of your own should pass.
//
// # The caller's duties
//
//  1. Call WaitForAttachAndMount in every sync of a pod. It is what says that the pod needs its volumes; it also renews
//     their content. It returns nil only when all are ready.
//  2. Let Pods answer with care. ShouldPodRuntimeBeRemoved is what allows to unmount: true only if no container of the
//     pod runs or can be started. In doubt, false. When it becomes true, call WaitForUnmount or PodChanged.
//  3. Call Refresh when something changed that volumes are made of, so that containers see it at once.
//  4. With volumes that something else attaches: publish GetVolumesInUse in the node's status whenever
//     Hooks.InUseChanged says so (not before ReconcilerStatesHasBeenSynced), call MarkVolumesAsReportedInUse with the
//     list that the API server has, and NodeChanged when its volumesAttached changed.
//  5. Call CleanupOrphans in housekeeping once every source of pods has spoken.
//  6. Do not write to a pod that was handed in. Do not call methods with a lock held that Pods or Claims take.
//  7. Have one Manager per Root at a time. Nothing here locks the folder.
//
// # The states of a volume of a pod
//
//	             record written           SetUp returned nil
//	not mounted ───────────────► SetUp ─────────────────────────► mounted ◄──┐ SetUp with Remount, ok or not:
//	   ▲    ▲                    ▲   │                               │    └──┘ the last good content stays
//	   │    └── final, terminal ─│───┤                               │
//	   │                         │   │ any other error               │ the pod is gone
//	   │         the pod needs it│   ▼                               ▼
//	   │                         └─ uncertain ◄── error ──────── TearDown
//	   │                             │    ▲                       ▲  │
//	   │                             │    └─ found after a restart│  │ nil, record removed
//	   │                             └───── the pod is gone ──────┘  │
//	   └─────────────────────────────────────────────────────────────┘
//
// A transient error changes nothing. An error without a class counts as uncertain. What was found after a restart stays
// uncertain until a SetUp or TearDown of it succeeds, for containers may use it. A volume that is shared by pods is
// attached and staged before the first SetUp (with a record and states of the same kind), and unstaged after the last
// TearDown; meanwhile pods of the same volume wait, others do not.
//
// Nothing is unmounted because nobody asked for it: DesireKept is what a volume has that was found on disk, or that a pod
// no longer names. It stays until Pods says that the pod is gone, which is asked again right before the TearDown.
//
// # Goroutines
//
// Run waits for all of them: its own loop, whose only work is the resync; one per operation under way, of which
// Options.MaxParallel call plugins at a time, not counting those that have taken longer than a second; and one timer per
// volume that waits for a back-off. A volume that nobody changes has neither. WaitForAllPodsUnmount has one goroutine per
// pod until it returns. Hooks run in the goroutine of the operation, or in that of the caller whose call changed what is in
// use. Nothing of the caller's is called with a lock held, but Attachable and NeedsRefresh of plugins, which look at memory
// only.
//
// A plugin that ignores its context holds up its own volume, is seen in Snapshot with its deadline, and Run waits for it.
//
// Plan says what is due, Reconcile does it, and Reconstruct finds out what is mounted, for those who drive a Manager
// without Run.
//
// # Differences from the kubelet (1.36)
//
//   - No polling: a request begins operations itself, and the end of one wakes those who wait (126049, 66938). The kubelet
//     looks every 100 ms for work and every 300 ms for its end.
//   - A mount record with the whole Spec is written before SetUp. After a restart, volumes are known again without a
//     cluster, also those of plugins whose folders do not tell (local). Without a record, the folders are looked at.
//   - A volume is made of the fewest files, and the folder of all pods has the mark of ext4 for what does not belong together
//     (chattr +T): new files are what a burst of pods takes most of its time for, and in one corner of a disk they take
//     many times as long. Files and folders that the kubelet has below pods/<uid>/plugins for each volume are not there.
//   - Unmounting needs a positive answer; a source that is late, or an API server that is down, unmounts nothing
//     (120150, 101791, 52683).
//   - WaitForAttachAndMount returns after the refresh it has asked for, not before. One that fails keeps what is there
//     (113242, 121271).
//   - A pod that cannot be told what its volume is fails at once instead of after 2 min 3 s; so does a Terminal error.
//   - WaitForUnmount waits for uncertain volumes, too, for operations that may still mount something, and after a restart
//     until it is known what is mounted.
//   - Error classes are found through wrapping. An error without one is uncertain, not final.
//   - A pod that is gone cancels its SetUp. A failed mount does not hold up the unmount, and a new request ends a back-off.
//   - Volumes in use are those known here, from the decision to mount until they are unstaged; a hook tells of changes
//     (28141). Volumes are reported as in use after a restart before anything is resolved.
//   - Cleaning up what nobody knows is tried again with back-off, not once (60987), by plugins; folders are removed only
//     if they are empty, or without volumes and mounts (7317).
//   - A volume that the spec of a pod no longer has is kept until the pod is gone.
//   - This package attaches nothing itself, checks no node affinity and no SELinux labels, and sends no events: Hooks and
//     the typed errors have what is needed for those.
//   - A teardown that fails is repeated, over restarts too, from the record alone (72604, 101378); a staged volume is left
//     at once after its last pod (113426); who waits is told what is under way and since when (65110).
//   - Nobody looks at what is mounted but the operation on that volume, so that a file server that hangs holds up its own
//     pod only (31272, 123960).
//   - A panic in a plugin is not swallowed.
//
// Of the faults that the contract lists, these have no counterpart here and are not claimed: metrics of volumes that are
// cached for the life of a mounter (there are none), a corrupted target of a subPath (138856, which 1.37 mends), and what
// comes of SELinux labels.
//
// # Differences from the contract's sketch
//
//   - The kubelet's method names are kept, and Pods has podworkers' two questions, in place of a list of all pods: desire
//     comes with each sync.
//   - A Plugin has SetUp and TearDown itself, with a Place, in place of making a Mounter and an Unmounter; so a TearDown
//     needs nothing that was lost at a restart.
//   - Supplemental groups, block volumes and expansion are parts of Spec, and abilities of plugins.
//   - Hooks and OperationEnd are in place of a sink for events; times are OperationTimeout and AttachTimeout.
//   - CleanupOrphans takes a predicate and a table of mounts.
package volumemanager
