// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/keelson-dev/keelson/internal/kernelfile"
)

// read returns the content of a file, nil if it cannot be read, for example on other operating
// systems.
func (m Machine) read(path string) []byte {
	data, err := kernelfile.Append(make([]byte, 0, kernelfile.Size), filepath.Join(cmp.Or(m.Root, "/"), path))
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
