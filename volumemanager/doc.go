// SPDX-License-Identifier: Apache-2.0

// Package volumemanager mounts and unmounts the volumes of the pods of a node. A volume is mounted
// as soon as possible after a pod needs it. A volume is unmounted only when the caller has reported
// its pod as gone, also across restarts and crashes of the agent.
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
//	err = manager.CleanupOrphan(uid)                     // now and then, for pods of PodsOnDisk
//
// Package volumeapi implements Claims, Node and the getters of ConfigMaps, Secrets and tokens for
// an API server. Package volumetest has a fake plugin and the conformance suite for plugins.
//
// # The caller's duties
//
//  1. Call WaitForAttachAndMount in every sync of a pod. The call requests the volumes of the pod
//     and renews their content. A nil error means: all volumes are ready.
//  2. Call WaitForUnmount when no container of the pod runs and none can be started. Without
//     Options.Pods, this call permits the unmounting. With Options.Pods, ShouldPodRuntimeBeRemoved
//     must return true only if no container of the pod runs or can be started; in doubt, false.
//     When the answer becomes true, call WaitForUnmount or PodChanged.
//  3. Call CleanupOrphan in housekeeping for the pods of PodsOnDisk that are gone, once every source of
//     pods has reported.
//
// Do not write to a pod after passing it to the Manager. Do not call a method while holding a lock
// that Pods or Claims take. Have one Manager per Root at a time: the Manager does not lock the folder.
//
// # Duties of some callers
//
//   - If the content of volumes changes: call Refresh when a source of content has changed.
//     Containers then see the change at once. Without the call, containers see the change after the
//     next sync of the pod.
//   - If an external attacher attaches volumes: publish GetVolumesInUse in the node's status after
//     each call of Hooks.InUseChanged (not before ReconcilerStatesHasBeenSynced). Call
//     MarkVolumesAsReportedInUse with the list of the API server. Call NodeChanged when
//     volumesAttached of the node has changed.
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
// A transient error changes nothing. An error without a class counts as uncertain. A volume found
// after a restart stays uncertain until a SetUp or TearDown of the volume succeeds, because
// containers may use it. A volume shared by pods is attached and staged before the first SetUp, and
// unstaged after the last TearDown. Staging has a record and states of the same kind. While the
// volume is being attached, staged or unstaged, only pods that use the volume wait.
//
// A volume without a request is not unmounted for that reason. A volume found on disk, or no longer
// named by its pod, has DesireKept and stays mounted until Pods reports the pod as gone. The
// Manager asks Pods again right before the TearDown.
//
// # Goroutines
//
// Run starts and waits for these goroutines: its own loop for the resync; a goroutine per operation
// under way; and a timer per volume in back-off. At most 32 operations call plugins at a time; an
// operation counts during its first second only. A volume without changes has no goroutine.
// WaitForAllPodsUnmount uses a goroutine per pod until the call returns. Hooks run in the goroutine
// of the operation, or in the goroutine of the method call that changed the list of volumes in use.
// No code of the caller is called with a lock held, except for Attachable and NeedsRefresh of
// plugins, which read memory only.
//
// A plugin that ignores its context blocks its own volume only. Snapshot shows the operation with
// its deadline, and Run waits for the plugin.
//
// Plan returns the due operations, Reconcile carries them out, and Reconstruct finds mounted
// volumes; they drive a Manager without Run.
//
// # Differences from the kubelet (1.36)
//
//   - No polling: a request starts operations at once, and the end of an operation wakes the
//     waiting calls (126049, 66938). The kubelet looks for work every 100 ms and for the end of
//     work every 300 ms.
//   - A mount record with the whole Spec is written before SetUp. After a restart the Manager knows
//     the volumes again without a cluster, also volumes of plugins whose folders do not identify
//     the volume (local). Without a record, the folders are read.
//   - A volume consists of as few files as possible, and the folder of all pods has ext4's mark for
//     unrelated subdirectories (chattr +T). The creation of files takes most of the time of a burst
//     of pods, and takes many times as long if all files are in one block group of the disk. The
//     kubelet's files and folders per volume below pods/<uid>/plugins do not exist here.
//   - A volume is unmounted only after the answer that its pod is gone. A late source of pods or an
//     outage of the API server unmounts nothing (120150, 101791, 52683).
//   - WaitForAttachAndMount returns after the refresh that the call requested, not before. A failed
//     refresh keeps the present content (113242, 121271).
//   - WaitForAttachAndMount fails at once, instead of after 2 min 3 s, for a volume that cannot be
//     resolved and for a Terminal error.
//   - WaitForUnmount also waits for uncertain volumes, for operations that may still mount, and
//     after a restart for the end of Reconstruct.
//   - Error classes are found through wrapping. An error without a class is uncertain, not final.
//   - The end of a pod cancels its SetUp. A failed mount does not delay the unmount, and a new
//     request ends a back-off.
//   - The volumes in use are those known to the Manager, from the decision to mount until they are
//     unstaged. A hook reports changes (28141). After a restart, volumes are reported as in use
//     before any claim is resolved.
//   - Plugins clean up volumes that no pod needs, with retries and back-off instead of once
//     (60987). Folders are removed only if they are empty, or have no volumes and mounts (7317).
//   - A volume that was removed from the spec of a pod is kept until the pod is gone.
//   - This package attaches no volumes, checks no node affinity and no SELinux labels, and sends no
//     events. Hooks and the typed errors give callers the data for these tasks.
//   - A failed teardown is repeated from the record alone, also after restarts (72604, 101378). A
//     staged volume is unstaged at once after its last pod (113426). The error of a wait names the
//     operation under way and its start (65110).
//   - Only the operation on a volume touches its mount, so that a file server that hangs blocks its
//     own pod only (31272, 123960).
//   - A panic in a plugin is not swallowed.
//
// The package has no metrics of volumes and no SELinux labels, and does not repair a corrupted target of
// a subPath (138856, repaired in 1.37).
//
// # Choices of the interface
//
//   - The methods have the kubelet's names. Pods has two methods of podworkers instead of a list of
//     all pods, because each sync passes the desired volumes.
//   - A Plugin has SetUp and TearDown with a Place, instead of making a Mounter and an Unmounter. A
//     TearDown therefore needs no state from before a restart.
//   - Supplemental groups, block volumes and expansion are parts of Spec, and abilities of plugins.
//   - Hooks and OperationEnd replace an event sink. Timeouts are the kubelet's, and no options.
//   - PodsOnDisk and CleanupOrphan are the two halves of the kubelet's cleanupOrphanedPodDirs.
package volumemanager
