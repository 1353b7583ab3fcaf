// SPDX-License-Identifier: Apache-2.0

// Package emptydir gives pods folders that begin empty and live as long as the pod: on the disk, in memory, or of huge
// pages.
//
//	plugin, err := emptydir.New(emptydir.Options{AllocatableMemory: node.Memory})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duties:
//
//  1. Hold pods to a sizeLimit on the disk by measuring and evicting: only in memory does the plugin enforce it.
//  2. Where the agent cannot mount (mount.None), expect pods that want memory or huge pages to be refused.
//
// The plugin starts no goroutine and has no file of its own. What it remembers is in the mode of a volume's folder, which
// is 0400 until it was set up to the end: one with any other mode is left as containers made it.
//
// Differences from the kubelet (1.36):
//
//   - An fsGroup that cannot be applied is an error; the kubelet ignores it.
//   - Whatever is mounted at the folder and is neither tmpfs nor hugetlbfs makes TearDown fail, and what is mounted
//     below is never entered; nothing behind a mount can be removed (issues 7317, 37698).
//   - A limit on a pod as a whole counts for the size of a tmpfs.
//   - There is no file "ready" below plugins/, and so no three files and folders for each volume (see above).
//   - Huge pages that the node does not have are refused before the pod starts, not when it is killed by SIGBUS.
package emptydir
