// SPDX-License-Identifier: Apache-2.0

// Package imageimport imports a folder of image archives into a container runtime, for nodes without a
// registry. An archive is checked before its import, its images are pinned, and they are unpinned when
// the file is removed. docs/images.md is for users.
//
//	folder, err := imageimport.New(imageimport.Options{
//		Dir:      "/var/lib/agent/images",
//		Importer: imageimport.Ctr{Socket: "/run/containerd/containerd.sock"},
//		Problem:  func(path string, err error) { log.Println(path, err) },
//	})
//	if err != nil {
//		return err
//	}
//	folder.Scan(ctx) // before the pods are started
//	go folder.Run(ctx)
//
// # The caller's duties
//
//  1. Call Scan once before the pods are started, and then Run. Both are not called concurrently.
//  2. Exclude the images of Pinned from image collection.
//  3. Write an Importer for other runtimes and stores. Ctr is for containerd: the CRI has no call to import.
//
// # Files read
//
// Files of the names .tar, .tar.gz, .tgz, .tar.zst and .tzst, in the order of names, as package imagearchive
// reads and checks them. Other names, names with a leading dot and *.part are ignored. A file is read when it
// has been unchanged for two seconds. A file that fails the check, or has no image with a name, is reported,
// not imported, and read again when it changes.
//
// # Goroutines
//
// Run uses the caller's goroutine. New starts none.
package imageimport
