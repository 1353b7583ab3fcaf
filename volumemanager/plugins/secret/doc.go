// SPDX-License-Identifier: Apache-2.0

// Package secret implements secret volumes: the keys of a Secret as files.
//
//	plugin, err := secret.New(secret.Options{Source: source}) // for example an *objects.Store
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duties:
//
//  1. Provide a Source that answers from memory, or soon, and returns NotFound (apimachinery's)
//     only if the object positively does not exist.
//  2. Call Manager.Refresh when an object has changed, with (objects.Ref).UsedBy as match. The
//     files change within milliseconds.
//
// The plugin starts no goroutine. Each volume has a tmpfs of its own; if the agent cannot mount,
// files are on the disk.
//
// Differences from the kubelet (1.36):
//
//   - A failed refresh keeps the last good files, and the same folder and inode. The kubelet
//     removes the volume of the running container (issue 113242).
//   - The next SetUp repairs the leftovers of a crash. The kubelet's writer fails for ever on a
//     stale ..data_tmp.
//   - After Manager.Refresh a change is visible at once, instead of within a minute or two (30189).
//   - A missing defaultMode means 0644 instead of an error.
//   - An old version of the files stays while a container uses it through a subPath (68211).
package secret
