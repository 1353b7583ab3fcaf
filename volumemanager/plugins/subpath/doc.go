// SPDX-License-Identifier: Apache-2.0

// Package subpath implements volumeMounts[].subPath: containers get a part of a volume. Links in the
// volume cannot lead out of the volume, not even a link that another container creates meanwhile.
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
//  1. Expand subPathExpr, and call Prepare before each start of a container, because the part may
//     have been replaced, for instance by an update of a configMap (issue 68211).
//  2. Call Prepare for the same container and index from a single goroutine at a time.
//
// Without mounts (mount.None), Prepare makes the same checks and returns the path inside the volume. A
// container that later replaces the part by a link can then lead the runtime out of the volume.
//
// Differences from the kubelet (1.36): a single system call opens the part, and the kubelet opens
// each element of the path. A relative link is followed if its target is in the volume. A link with
// an absolute target is an error. Errors contain no path of the node.
package subpath
