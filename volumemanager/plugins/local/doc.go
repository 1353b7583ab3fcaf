// SPDX-License-Identifier: Apache-2.0

// Package local gives pods persistent volumes that are folders or block devices of this node (PV.spec.local).
//
//	plugin, err := local.New(local.Options{})
//	manager, err := volumemanager.New(volumemanager.Options{…, Claims: claims, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duty: check the PV's node affinity before; the plugin takes the path for one of this node.
//
// A folder is bound into the pod's folder. A device with a file system is mounted once for the node, at
// plugins/kubernetes.io/local-volume/mounts/<pv>, and bound from there; one of volumeMode Block is a link. Where the
// agent cannot mount (mount.None) a folder becomes a link, and devices are refused.
//
// A device that holds no byte but zeros is formatted (mkfs.<type>, ext4 by default); one that holds anything that is
// not the wanted file system is refused. Nothing else ever writes to, or removes, what is behind the path.
//
// There is no goroutine; volumes of one PV are set up one after the other, for the sake of the fsGroup.
//
// Differences from the kubelet (1.36):
//
//   - A volume that was found after a restart is torn down without knowing its path, at any time again. The kubelet's
//     reconstruction of a folder always fails ("local path is not set") and the volume is cleaned up in one attempt.
//   - The fsGroup is applied once, before the first pod can write, as in the kubelet; an error of it is an error.
//   - Unmounting is not lazy and removes folders by rmdir only.
package local
