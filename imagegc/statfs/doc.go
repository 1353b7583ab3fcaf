// SPDX-License-Identifier: Apache-2.0

// Package statfs measures the file system that images are on by asking the kernel.
//
//	disk := statfs.Path("/var/lib/containerd")
//	gc, err := imagegc.New(imagegc.Options{Disk: disk, …})
//
// Use the file system's own numbers rather than the runtime's: what CRI's ImageFsInfo says about images is up to ten
// seconds old, while a collection wants to know after every removal. Where images are it does know:
//
//	disk := statfs.Func(func(ctx context.Context) (string, error) {
//		where, err := images.ImageFsInfo(ctx) // runtime/cri
//		if err != nil || len(where) == 0 {
//			return "", cmp.Or(err, errors.New("the runtime does not say where images are"))
//		}
//		return where[0].Mountpoint, nil
//	})
//
// Blocks that the file system reserves for root do not count as available. A path on a network file system whose server
// is away can block in the kernel, where no context reaches.
package statfs
