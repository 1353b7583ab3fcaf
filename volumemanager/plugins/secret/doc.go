// SPDX-License-Identifier: Apache-2.0

// Package secret makes secret volumes: the keys of a Secret as files.
//
//	plugin, err := secret.New(secret.Options{Source: source}) // an *objects.Store is one
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duties:
//
//  1. Give a Source that answers from memory, or soon, and that says NotFound (apimachinery's) only if the object is
//     known not to be there.
//  2. Call Manager.Refresh when an object has changed; objects.Ref has the match for it. The files change within
//     milliseconds.
//
// The plugin starts no goroutine. Files lie on a tmpfs of each
// volume's own; where the agent cannot mount, on the disk.
//
// Differences from the kubelet (1.36):
//
//   - A refresh that fails leaves the last good files, and the same folder and inode. The kubelet removes the volume of
//     the running container (issue 113242).
//   - What a crash left behind is mended by the next SetUp. The kubelet's writer fails for ever on a stale ..data_tmp.
//   - A change shows at once, when Manager.Refresh is called, instead of within a minute or two (30189).
//   - A missing defaultMode is 0644 and no error.
//   - An old version stays as long as a subPath of a container shows it (68211).
package secret
