// SPDX-License-Identifier: Apache-2.0

package statfs

import (
	"context"
	"errors"
	"fmt"
)

// Disk is the file system that a path is on. It is an imagegc.DiskUsage, and safe for concurrent use.
type Disk struct {
	path func(context.Context) (string, error)
}

// Path returns the file system that path is on: a folder or file, or what it is mounted on.
func Path(path string) *Disk {
	return Func(func(context.Context) (string, error) { return path, nil })
}

// Func returns the file system of a path that is asked for every time: the runtime knows it, once it runs.
func Func(path func(context.Context) (string, error)) *Disk { return &Disk{path} }

// ImageFS returns the size of the file system and what is left of it for those who are not root, in bytes. An error is
// that of the path's function, or wraps the kernel's and names the path.
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
