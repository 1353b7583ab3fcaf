// SPDX-License-Identifier: Apache-2.0

package statfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

func usage(path string) (capacity, available uint64, err error) {
	var s unix.Statfs_t
	for {
		err = unix.Statfs(path, &s)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	block := uint64(s.Frsize)
	if block == 0 {
		block = uint64(s.Bsize)
	}
	return s.Blocks * block, s.Bavail * block, err
}
