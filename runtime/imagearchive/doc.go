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
// Verify reads the whole archive. Every blob has the digest of its name, every layer of a docker
// archive the digest in its image's configuration, and nothing that a manifest names is missing. Of
// an image for several platforms at least one is complete. An error wraps ErrInvalid, unless the
// system refused to read the file.
//
// Open and Verify refuse a tar file with a link, a device, a path that leaves the archive, or a path
// that comes twice. An archive has at most 10,000 members and its documents at most 8 MiB each.
//
// # The caller's duties
//
// Check the layers' content after Open: the reader of an Archive has the digests of all blobs of a
// layout, and the digest of every uncompressed layer. Package imagestore checks the latter.
//
// A file that is replaced or written after Open is an error of the next read, which names the file.
package imagearchive
