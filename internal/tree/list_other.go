// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tree

import (
	"io/fs"
	"os"
)

func readDir(root *os.Root, rel string) ([]fs.DirEntry, error) {
	f, err := root.Open(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}
