// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxFile is the largest size read from a file, in bytes.
const maxFile = 1 << 20

// read returns the content of a file, nil if it cannot be read, for example on other operating
// systems.
func (m Machine) read(path string) []byte {
	f, err := os.Open(filepath.Join(cmp.Or(m.Root, "/"), path))
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil
	}
	return data
}

// names returns the names in a folder in order, nil if it cannot be read.
func (m Machine) names(path string) (all []string) {
	entries, err := os.ReadDir(filepath.Join(cmp.Or(m.Root, "/"), path))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func (m Machine) line(path string) string {
	line, _, _ := strings.Cut(string(m.read(path)), "\n")
	return strings.TrimSpace(line)
}
