// SPDX-License-Identifier: Apache-2.0

// Package mount is what volume plugins do to the mount table: System does it with Linux's system calls, None has no
// mounts to offer, for an agent that is not root or not on Linux.
//
//	mounter := mount.Detect() // System if this process may mount, else None
//	plugin, err := secret.New(secret.Options{Source: secrets, Mounter: mounter})
//	manager, err := volumemanager.New(volumemanager.Options{…, Mounts: volumemanager.MountTableFunc(mount.Points)})
//
// What plugins do where there are no mounts: a secret lies in a folder on the disk, a local volume is a link, and a
// memory-backed emptyDir is refused.
//
// Nothing here runs mount(8): options are those of the system call, and of file systems. A call that hangs, because a
// file server does, hangs alone; it holds no lock.
package mount
