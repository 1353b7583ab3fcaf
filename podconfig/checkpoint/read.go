// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	v1 "k8s.io/api/core/v1"
)

// DefaultMaxBytes is how large a checkpoint may be if nothing else is said: a pod takes 2 to 10 KB.
const DefaultMaxBytes = 64 << 20

// Read returns what a checkpoint holds, as podconfig.StoreOptions.Seed wants it: pods by source, in the order of their
// arrival. Nothing and no error if there is no file, as at a node's first start. It reads no more than maxBytes (0 is
// DefaultMaxBytes), and does not block on what is no regular file.
//
// An error is a *FileError. With it comes nothing: the caller says so and goes on without a seed, as if there were no
// file. The next Save replaces it, whatever it is.
func Read(path string, maxBytes int64) (map[string][]*v1.Pod, error) {
	if maxBytes == 0 {
		maxBytes = DefaultMaxBytes
	}
	data, err := load(path, maxBytes)
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

// load reads a file that only its owner can have written.
func load(path string, maxBytes int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: it is not a regular file", ErrForeign)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%w (mode %04o)", ErrExposed, info.Mode().Perm())
	case info.Size() > maxBytes:
		return nil, fmt.Errorf("%w: %d of %d bytes", ErrTooLarge, info.Size(), maxBytes)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && int64(len(data)) > maxBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxBytes)
	}
	return data, err
}
