// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package file

import (
	"io/fs"
	"os"
	"time"
)

// stamp changes with a file's content, unless the size stays and the time is set back.
type stamp struct {
	size  int64
	mtime time.Time
}

func stampOf(info fs.FileInfo) stamp { return stamp{size: info.Size(), mtime: info.ModTime().Round(0)} }

// changed returns the time of the last known change of the file's content.
func (s stamp) changed() time.Time { return s.mtime }

// openForWriting is not supported on this system.
func openForWriting(*os.File) writer { return writerUnknown }

// hasStamp reports whether path leads to a regular file with the stamp.
func hasStamp(path string, of stamp) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && stampOf(info) == of
}
