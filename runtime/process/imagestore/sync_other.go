// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package imagestore

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncAll writes all file systems to the disk.
func syncAll(*os.File) error { return unix.Sync() }
