// SPDX-License-Identifier: Apache-2.0

// Package subpath implements volumeMounts[].subPath: containers get a part of a volume. A link in
// the volume never leads out of the volume, whenever another container creates the link.
//
//	subpaths, err := subpath.New(subpath.Options{Mounter: mount.Detect()})
//	manager, err := volumemanager.New(volumemanager.Options{…, Subpaths: subpaths})
//
//	host, err := subpaths.Prepare(ctx, subpath.Request{ // before a container is created
//		Place: place, Volume: mounted.Path, SubPath: "data/x", Container: c.Name, Index: i,
//	})
//
// Prepare opens the part beneath the volume with openat2, which is immune to races, and binds the
// open file to a folder of its own, pods/<uid>/volume-subpaths/<volume>/<container>/<index>, in the
// kubelet's layout. The container runtime gets this folder, never the path inside the volume.
// CleanSubpaths removes the folder once the pod is gone.
//
// The caller's duties:
//
//  1. Expand subPathExpr before, and call Prepare again before each start of a container, because
//     the part may have been replaced, for instance by an update of a configMap (issue 68211).
//  2. Call Prepare for the same container and index from a single goroutine at a time.
//  3. Without mounts (mount.None), Prepare returns the path inside the volume, after the same
//     checks. Then later changes by containers are not prevented.
//
// Differences from the kubelet (1.36): a single system call replaces a walk. A relative link inside
// the volume may be followed, a link with an absolute target never. Errors show no path of the
// node.
package subpath
