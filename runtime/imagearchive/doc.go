// SPDX-License-Identifier: Apache-2.0

// Package imagearchive reads images from files, for nodes without a network.
//
//	archive, err := imagearchive.Open("/var/lib/agent/images/app.tar")
//	if err != nil {
//		return err
//	}
//	for _, found := range archive.Images() {
//		fmt.Println(found.Names)
//	}
//
// An archive is an image layout of OCI (1.1) as a tar file or as a folder, or the tar file of "docker
// save". A tar file may be compressed with gzip or zstd. If a file is both, the layout is read.
// The names are those that the writing tool recorded: the annotation io.containerd.image.name, the
// annotation org.opencontainers.image.ref.name if it is more than a tag, or RepoTags.
//
// A Folder finds images in the archives of a folder, and is a Registry of package imagestore: an
// image is unpacked when a pod needs it, and a new archive needs no restart. A file whose name ends
// in ".part" or begins with a dot is being copied, and is left out. Rename the file after the copy.
//
// # The check
//
// Verify reads the whole archive. It checks that every blob has the digest in its name, that every
// layer of a docker archive has the digest in its image's configuration, and that nothing named by
// a manifest is missing. An image for several platforms must be complete for at least one of them.
// An error wraps ErrInvalid, unless the system refused to read the file.
//
// Open and Verify refuse a tar file with a link, a device, a path that leaves the archive, or a path
// that comes twice. An archive has at most 10,000 members and its documents at most 8 MiB each.
//
// # The caller's duties
//
// Check the content of the layers after Open. The Archive has the digests of all blobs of a layout,
// and the digest of every uncompressed layer. Package imagestore checks the latter.
//
// A file that is replaced or written after Open is an error of the next read, which names the file.
package imagearchive
