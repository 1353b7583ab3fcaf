// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package subpath

import (
	"context"
	"os"
	"path/filepath"
)

// openPart checks that a file or folder is beneath root. Only Linux can bind the opened file.
func openPart(root *os.Root, sub string) (*os.File, error) {
	f, err := root.Open(sub)
	if err != nil {
		return nil, escapes(err)
	}
	return f, nil
}

// bind returns the path inside the volume, because this system has no bind mounts.
func (s *Subpaths) bind(_ context.Context, r Request, _ *os.File) (string, error) {
	return filepath.Join(r.Volume, filepath.FromSlash(r.SubPath)), nil
}
