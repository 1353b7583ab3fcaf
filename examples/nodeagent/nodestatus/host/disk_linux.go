// SPDX-License-Identifier: Apache-2.0

package host

import "syscall"

// Disk returns size and availability of the file system of path, in bytes and inodes. Available is
// the amount for unprivileged users. All results are zero if the path is inaccessible. The inodes
// are zero if the file system does not limit them.
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
