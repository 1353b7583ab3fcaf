// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mount

import (
	"path/filepath"
)

// flags are unknown here: nothing is mounted.
var flags = map[string]flag{}

// Detect returns None: only on Linux can this package mount.
func Detect() Mounter { return None{} }

// At returns what is mounted at path.
func (None) At(path string) (Info, bool, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return Info{}, false, nil
	}
	return at(filepath.Join(dir, filepath.Base(path)))
}

// List returns all mounts.
func (None) List() ([]Info, error) { return list() }
