// SPDX-License-Identifier: Apache-2.0

// Package imagestore keeps images of containers as unpacked root file systems, without a container
// engine and without root.
//
//	archives, err := imagearchive.NewFolder("/var/lib/agent/archives")
//	…
//	images, err := imagestore.New(imagestore.Options{
//		Root:    "/var/lib/agent/images",
//		Sources: []imagestore.Source{archives, registry.New(registry.Options{Parts: "/var/lib/agent/images/parts"})},
//	})
//	backend, err := process.New(process.Options{Root: "/var/lib/agent/process", Confine: true, Images: images})
//	manager, err := runtime.New(runtime.Options{Runtime: imagestore.Runtime{Runtime: backend, Store: images}, …})
//
// A Store implements runtime.Images, so that runtime.Manager applies pull policies, credentials,
// back-off and events. The store is 0.4 MB of a program, and package registry 0.6 MB.
//
// # The caller's duties
//
//  1. Remove images that no container uses, for example with package imagegc: ListImages and
//     RemoveImage are its seam. RemoveImage does not look for containers.
//  2. Keep the folder of an image as long as a container of the image exists. ImagesInUse of package
//     process names these images.
//  3. Give Root to one agent. Two agents at a time, as in an update of the agent, are safe.
//
// The package has no goroutine and, except for locks, no state in memory.
//
// # From layers to a root file system
//
//	tar stream ──unpack──> layers/<digest>/entries.json, contents/<number>
//	entries of all layers ──fileTree──> one tree in memory ──builder──> images/<id>/rootfs
//	reference ──> names/<digest of the reference>
//
// A layer is unpacked once. Its files get numbers as names, and the names of the layer are data in
// entries.json. The layers of an image are composed in memory: whiteouts, replaced files, hard
// links, and paths through symbolic links, which end at the image's root. Only then the tree is made
// on the disk, below a new folder, and each file is a hard link to the content of its layer. No link
// of a layer is ever followed on the host, and images with equal layers share disk space.
//
// Every folder is made under a name that begins with ".draft-", synced, and renamed. A folder with
// another name is complete, also after a power cut. Unlocked drafts are removed by the next agent.
// The complete layers of an interrupted pull are kept for a day.
//
// # What an image may not do
//
//   - Reach outside: a path with ".." is refused. An absolute path is below the image's root.
//   - Bring devices, fifos, setuid or setgid bits, file capabilities or other extended attributes.
//     All are left out.
//   - Be endless: an image has at most 16 GiB of uncompressed bytes, 1,000,000 files, 500 layers and
//     255 nested folders.
//   - Be another image: the digests of the configuration and of every uncompressed layer are
//     checked before the image gets a name.
//   - Be for another platform.
//
// Files of an agent without root belong to the agent's user, and are readable by it. Files of an
// agent with root belong to the numbers that the image names.
//
// # Differences
//
// From containerd: there are no mirrors, no signatures, no lazy
// pulling and no other snapshotters. The user of an image may be a name with runAsNonRoot, because
// the name is looked up in the image before the check. The kubelet (1.36) refuses a name. Volumes
// that the image declares are folders of the image, so they cannot be written with
// readOnlyRootFilesystem: true.
package imagestore
