// SPDX-License-Identifier: Apache-2.0

// Package emptydir implements emptyDir volumes: folders that begin empty and live as long as the
// pod, on the disk, in memory, or of huge pages.
//
//	plugin, err := emptydir.New(emptydir.Options{AllocatableMemory: memory})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duties:
//
//  1. Enforce a sizeLimit on the disk by measuring and evicting. The plugin enforces the limit in
//     memory only.
//  2. If the agent cannot mount (mount.None), expect refusals of pods with memory or huge page
//     volumes.
//
// The plugin starts no goroutine and has no file of its own. Its only state is the mode of a
// volume's folder: 0400 until the set-up is complete. A folder with any other mode is left as the
// containers changed it.
//
// Differences from the kubelet (1.36):
//
//   - An fsGroup that cannot be applied is an error; the kubelet ignores the failure.
//   - A mount at the folder other than tmpfs and hugetlbfs makes TearDown fail. TearDown never
//     enters mounts below the folder, so that nothing behind a mount is removed (issues 7317,
//     37698).
//   - A memory limit of the whole pod also limits the size of a tmpfs.
//   - There is no file "ready" below plugins/, which saves three files and folders for each volume.
//   - Huge pages that the node does not have are refused before the pod starts, instead of killing
//     the pod by SIGBUS.
package emptydir
