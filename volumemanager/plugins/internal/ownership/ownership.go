// SPDX-License-Identifier: Apache-2.0

// Package ownership gives a group access to a volume: fsGroup. It never follows a link, and never
// changes files of another mount, even if a container swaps names meanwhile.
package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/tree"
)

// Access is the access of the group.
type Access int

// The kinds of access.
const (
	ReadWrite Access = iota
	ReadOnly
)

// bits returns the minimum mode bits of a file or folder with mode m, as in the kubelet (1.36).
func (a Access) bits(m fs.FileMode) fs.FileMode {
	add := fs.FileMode(0o660)
	if a == ReadOnly {
		add = 0o440
	}
	if m.IsDir() {
		add |= 0o110 | fs.ModeSetgid
	}
	return add
}

// Request is a change of the group.
type Request struct {
	// Group is the fsGroup.
	Group  int64
	Access Access
	// Policy is the pod's policy; nil means Always.
	Policy *v1.PodFSGroupChangePolicy
	// Progress is called with the number of files after every 1,000 files. May be nil.
	Progress func(files int)
}

// progressEvery is the number of files between two calls of Progress.
const progressEvery = 1000

// permissions are the mode bits that Chmod changes.
const permissions = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// Apply gives the group access to the folder name below root, and to all of its content. The folder
// itself comes last, so that OnRootMismatch repeats an unfinished walk. Apply continues after a
// file that cannot be changed, and returns the first such error (the kubelet logs the errors and
// treats the volume as ready). The end of ctx ends the walk.
func Apply(ctx context.Context, root *os.Root, name string, r Request) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.Policy != nil && *r.Policy == v1.FSGroupChangeOnRootMismatch {
		info, err := root.Stat(name)
		if err != nil {
			return err
		}
		if matches(info, groupOf(info), r) {
			return nil
		}
	}
	var failed error
	n := 0
	err := tree.Walk(root, name, func(e *tree.Entry) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if n++; r.Progress != nil && n%progressEvery == 0 {
			r.Progress(n)
		}
		if e.Name == "." && failed != nil {
			return nil // leave the root, so that the next Apply walks again
		}
		if err := give(e, r); err != nil && failed == nil && !errors.Is(err, fs.ErrNotExist) {
			failed = fmt.Errorf("fsGroup %d: %w", r.Group, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("fsGroup %d: %w", r.Group, err)
	}
	return failed
}

// Take gives an open, empty folder to the group, and returns the mode bits to add.
func Take(dir *os.File, r Request) (fs.FileMode, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	if err := dir.Chown(-1, int(r.Group)); err != nil {
		return 0, fmt.Errorf("fsGroup %d: %w", r.Group, tree.Cause(err))
	}
	return r.Access.bits(fs.ModeDir), nil
}

func (r Request) check() error {
	if r.Group < 0 || r.Group > 1<<32-2 {
		return fmt.Errorf("fsGroup %d is no group ID", r.Group)
	}
	return nil
}

// give changes a file. A file with the right group and mode is not written.
func give(e *tree.Entry, r Request) error {
	if e.GID != int(r.Group) {
		if err := e.Chown(-1, int(r.Group)); err != nil {
			return err
		}
	}
	if e.Mode&fs.ModeSymlink != 0 {
		return nil
	}
	want := e.Mode&permissions | r.Access.bits(e.Mode)
	// A change of owner clears setuid and setgid.
	lost := e.GID != int(r.Group) && e.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0
	if want == e.Mode&permissions && !lost {
		return nil
	}
	return e.Chmod(want)
}

// matches reports whether a volume's folder has the group and mode of a completed Apply.
func matches(info fs.FileInfo, gid int64, r Request) bool {
	want := r.Access.bits(info.Mode())
	return info.IsDir() && gid == r.Group && info.Mode()&want == want
}
