// SPDX-License-Identifier: Apache-2.0

//go:build unix

package volumemanager

import (
	"errors"
	"io/fs"
	"syscall"
)

// deviceOf returns the number of the file system a file is on.
func deviceOf(info fs.FileInfo) (uint64, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("cannot tell on which file system a file is")
	}
	return uint64(stat.Dev), nil
}
