// SPDX-License-Identifier: Apache-2.0

// Package local implements persistent volumes in folders or on block devices of this node
// (PV.spec.local).
//
//	plugin, err := local.New(local.Options{})
//	manager, err := volumemanager.New(volumemanager.Options{…, Claims: claims, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duty: check the PV's node affinity, as volumeapi.Claims does. The plugin assumes
// that the path is on this node.
//
// A folder is bound into the pod's folder. A device with a file system is mounted once for the
// node, at plugins/kubernetes.io/local-volume/mounts/<pv>, and bound from there. A volume with
// volumeMode Block is a link. If the agent cannot mount (mount.None), a folder becomes a link, and
// devices are refused.
//
// A device with only zeros in the probed areas is formatted (mkfs.<type>, ext4 by default). A
// device with other content than the requested file system is refused. The plugin never writes to
// or removes any other data behind the path.
//
// The plugin starts no goroutine. Volumes of the same PV are set up one after the other, so that
// the fsGroup is applied once.
//
// Differences from the kubelet (1.36):
//
//   - A volume found after a restart is torn down without its path, with retries. The kubelet's
//     reconstruction of a folder always fails ("local path is not set"), and the kubelet cleans the
//     volume up in a single attempt.
//   - The fsGroup is applied once, before the first pod can write, as in the kubelet. A failure is
//     an error.
//   - Unmounting is not lazy and removes folders by rmdir only.
package local
