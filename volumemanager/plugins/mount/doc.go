// SPDX-License-Identifier: Apache-2.0

// Package mount reads and changes the mount table for volume plugins. System uses Linux's system
// calls. None offers no mounts, for an agent that is not root or not on Linux.
//
//	mounter := mount.Detect() // System if this process may mount, else None
//	plugin, err := secret.New(secret.Options{Source: secrets, Mounter: mounter})
//	manager, err := volumemanager.New(volumemanager.Options{…, Mounts: volumemanager.MountTableFunc(mount.Points)})
//
// Plugins without mounts: a secret is a folder on the disk, a local volume is a link, and a
// memory-backed emptyDir is refused.
//
// The package does not run mount(8): options are flags of the system call, and options of file
// systems. A call that hangs on a file server holds no lock and blocks no other call.
package mount
