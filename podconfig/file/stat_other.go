// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package file

import (
	"io/fs"
	"os"
	"time"
)

// stamp changes when a file's content does, unless its size stays and its time is set back.
type stamp struct {
	size  int64
	mtime time.Time
}

func stampOf(info fs.FileInfo) stamp { return stamp{size: info.Size(), mtime: info.ModTime().Round(0)} }

// changed is when the file's content last changed, as far as it tells.
func (s stamp) changed() time.Time { return s.mtime }

// openForWriting has no answer on this system.
func openForWriting(*os.File) writer { return writerUnknown }

// hasStamp tells whether what the path leads to is a file that has the stamp.
func hasStamp(path string, of stamp) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && stampOf(info) == of
}
