// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// maxFile is the largest size of a file, in bytes.
const maxFile = 1 << 20

// Read returns the main file, unless its path is empty, and the files *.conf below the folder of
// drop-ins, unless its path is empty, in the order of their paths. Each Name is absolute.
func Read(file, dropIns string) (files []File, err error) {
	paths := []string{}
	if dropIns != "" {
		err := filepath.WalkDir(dropIns, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && filepath.Ext(path) == ".conf" {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(paths)
	if file != "" {
		paths = append([]string{file}, paths...)
	}
	for _, path := range paths {
		f, err := readFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func readFile(path string) (File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return File{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: want at most %d bytes", path, maxFile)
	}
	return File{Name: path, Data: data}, err
}
