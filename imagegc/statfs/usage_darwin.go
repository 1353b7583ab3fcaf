// SPDX-License-Identifier: Apache-2.0

package statfs

import "golang.org/x/sys/unix"

func usage(path string) (capacity, available uint64, err error) {
	var s unix.Statfs_t
	err = unix.Statfs(path, &s)
	return s.Blocks * uint64(s.Bsize), s.Bavail * uint64(s.Bsize), err
}
