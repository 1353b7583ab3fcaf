// SPDX-License-Identifier: Apache-2.0

// Package subpath gives containers a part of a volume (volumeMounts[].subPath), so that no link that another container
// plants, at whatever moment, leads out of the volume.
//
//	subpaths, err := subpath.New(subpath.Options{Mounter: mount.Detect()})
//	manager, err := volumemanager.New(volumemanager.Options{…, Subpaths: subpaths})
//
//	host, err := subpaths.Prepare(ctx, subpath.Request{ // before a container is created
//		Place: place, Volume: mounted.Path, SubPath: "data/x", Container: c.Name, Index: i,
//	})
//
// Prepare opens the part beneath the volume with openat2, which no race can lead astray, and binds what it has open to
// a folder of its own, pods/<uid>/volume-subpaths/<volume>/<container>/<index>, the kubelet's layout. The container
// runtime is given that folder, never the path inside the volume. CleanSubpaths undoes it once the pod is gone.
//
// The caller's duties:
//
//  1. Expand subPathExpr before, and call Prepare anew before each start of a container: the part may be another by
//     then, for instance after a configMap was updated (issue 68211).
//  2. Call Prepare for one container and index from one goroutine at a time.
//  3. Where there is nothing to mount with (mount.None) the path inside of the volume is returned, after the same
//     checks; what containers do to it later cannot be held off then.
//
// Differences from the kubelet (1.36): one system call in the place of a walk; a relative link inside of the volume may
// be followed, one with an absolute target never is; errors show no path of the node.
package subpath
