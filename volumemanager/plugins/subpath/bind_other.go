// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package subpath

import (
	"context"
	"os"
	"path/filepath"
)

// openPart checks that a file or folder is beneath root. Only Linux can hold on to it.
func openPart(root *os.Root, sub string) (*os.File, error) {
	f, err := root.Open(sub)
	if err != nil {
		return nil, escapes(err)
	}
	return f, nil
}

// bind returns the path inside of the volume: there are no bind mounts here.
func (s *Subpaths) bind(_ context.Context, r Request, _ *os.File) (string, error) {
	return filepath.Join(r.Volume, filepath.FromSlash(r.SubPath)), nil
}
