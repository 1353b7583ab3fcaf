// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mount

import (
	"path/filepath"
)

// flags is empty, because this package mounts on Linux only.
var flags = map[string]flag{}

// Detect returns None, because this package mounts on Linux only.
func Detect() Mounter { return None{} }

// At returns the uppermost mount at path.
func (None) At(path string) (Info, bool, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return Info{}, false, nil
	}
	return at(filepath.Join(dir, filepath.Base(path)))
}

// List returns all mounts.
func (None) List() ([]Info, error) { return list() }
