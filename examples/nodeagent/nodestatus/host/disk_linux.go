// SPDX-License-Identifier: Apache-2.0

package host

import "syscall"

// Disk is the file system that a path is on, in bytes and inodes; what users
// without privileges may still have counts as available. All is zero if the path
// cannot be looked at, and inodes are if the file system has no limit of them.
func Disk(path string) (bytes, available, inodes, free int64) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, 0, 0, 0
	}
	block := int64(s.Frsize)
	if block <= 0 {
		block = int64(s.Bsize)
	}
	return int64(s.Blocks) * block, int64(s.Bavail) * block, int64(s.Files), int64(s.Ffree)
}
