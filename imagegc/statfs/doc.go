// SPDX-License-Identifier: Apache-2.0

// Package statfs measures the file system of the images by asking the kernel.
//
//	disk := statfs.Path("/var/lib/containerd")
//	gc, err := imagegc.New(imagegc.Options{Disk: disk, …})
//
// Prefer the kernel's numbers to the runtime's. CRI's ImageFsInfo is up to ten seconds old, but a
// collection measures after every removal. Use ImageFsInfo for the location of images:
//
//	disk := statfs.Func(func(ctx context.Context) (string, error) {
//		where, err := rt.ImageFsInfo(ctx) // runtime/cri
//		if err != nil || len(where) == 0 {
//			return "", cmp.Or(err, errors.New("the runtime reports no image file system"))
//		}
//		return where[0].Mountpoint, nil
//	})
//
// Blocks reserved for root do not count as available. A path on a network file system without a
// server can block in the kernel, where ctx has no effect.
package statfs
