// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// MaxBytes is the size limit of a checkpoint, for writing and reading. A pod takes 2 to 10 KB.
const MaxBytes = 64 << 20

// Read returns the pods of a checkpoint for podconfig.StoreOptions.Seed: pods by source, in order
// of arrival. If the file does not exist, as at a node's first start, Read returns no pods and no
// error. It reads at most MaxBytes, and does not block on a file that is not regular.
//
// An error is a *FileError, and no pods are returned. The caller should log the error and continue
// without a seed. The next Save replaces any existing file.
func Read(path string) (map[string][]*v1.Pod, error) {
	data, err := load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileError(path, "read", err)
	}
	pods, err := decode(data)
	if err != nil {
		return nil, fileError(path, "read", err)
	}
	return pods, nil
}

// load reads a file that only its owner may write.
func load(path string) ([]byte, error) {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, info, err := atomicfile.OpenRegular(dir, filepath.Base(path))
	if errors.Is(err, atomicfile.ErrNotRegular) {
		return nil, fmt.Errorf("%w: it is not a regular file", ErrForeign)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch {
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%w (mode %04o)", ErrExposed, info.Mode().Perm())
	case info.Size() > MaxBytes:
		return nil, fmt.Errorf("%w: %d of %d bytes", ErrTooLarge, info.Size(), MaxBytes)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err == nil && len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxBytes)
	}
	return data, err
}
