// SPDX-License-Identifier: Apache-2.0

package statfs

import (
	"context"
	"errors"
	"fmt"
)

// Disk measures the file system of a path. It implements imagegc.DiskUsage and is safe for
// concurrent use.
type Disk struct {
	path func(context.Context) (string, error)
}

// Path returns the file system of path: a folder, a file or a mount point.
func Path(path string) *Disk {
	return Func(func(context.Context) (string, error) { return path, nil })
}

// Func returns the file system of a path computed for every call, such as a path reported by the
// runtime.
func Func(path func(context.Context) (string, error)) *Disk { return &Disk{path} }

// ImageFS returns in bytes the size of the file system and the space available to users other than
// root. The error is that of the path's function, or wraps the kernel's error and names the path.
func (d *Disk) ImageFS(ctx context.Context) (capacity, available uint64, err error) {
	path, err := d.path(ctx)
	if err != nil {
		return 0, 0, err
	}
	if path == "" {
		return 0, 0, errors.New("statfs: no path")
	}
	if ctx.Err() != nil {
		return 0, 0, context.Cause(ctx)
	}
	capacity, available, err = usage(path)
	if err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", path, err)
	}
	return capacity, available, nil
}
