// SPDX-License-Identifier: Apache-2.0

package pullsecrets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxFile is the maximum number of bytes read from a file.
const maxFile = 1 << 20

// readFile returns the entries of a docker config.json. A missing file has none. No error contains
// the file's content.
func readFile(name string) ([]entry, error) {
	if name == "" {
		return nil, nil
	}
	switch info, err := os.Stat(name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s: more than %d bytes", name, maxFile)
	}
	entries, err := readConfig(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return entries, nil
}
