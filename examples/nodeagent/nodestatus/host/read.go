// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxFile is how much of a file is read, in bytes.
const maxFile = 1 << 20

// read returns what a file holds; nothing if it cannot be read, as on systems
// that have none of these.
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

func (m Machine) line(path string) string {
	line, _, _ := strings.Cut(string(m.read(path)), "\n")
	return strings.TrimSpace(line)
}
