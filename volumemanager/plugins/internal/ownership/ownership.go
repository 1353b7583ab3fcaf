// SPDX-License-Identifier: Apache-2.0

// Package ownership gives a group access to a volume: fsGroup. It never follows a link, and never changes what is on
// another mount, even if a container swaps names meanwhile.
package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/tree"
)

// Access is what the group may do.
type Access int

// The two of them.
const (
	ReadWrite Access = iota
	ReadOnly
)

// bits returns what a file or folder with mode m gets at least, as in the kubelet (1.36).
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

// Request is one change of owner.
type Request struct {
	// Group is the fsGroup.
	Group  int64
	Access Access
	// Policy is the pod's; nil is Always.
	Policy *v1.PodFSGroupChangePolicy
	// Progress is told now and then how many files have been seen. May be nil.
	Progress func(files int)
}

// progressEvery is after how many files Progress is called.
const progressEvery = 1000

// permissions are what Chmod changes.
const permissions = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// Apply gives the folder name below root, and all that is in it, to the group. The folder itself comes last, so that
// OnRootMismatch takes an unfinished walk for none. It goes on past a file that cannot be changed, and returns the
// first such error (the kubelet logs them and goes on as if the volume was ready). ctx ends it.
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
			return nil // not the root: the next Apply must walk again
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

// Take gives an open folder, which is empty, to the group, and returns what must be added to its mode.
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

// give changes one file. What is right already costs no write.
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
	// A change of owner takes setuid and setgid away.
	lost := e.GID != int(r.Group) && e.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0
	if want == e.Mode&permissions && !lost {
		return nil
	}
	return e.Chmod(want)
}

// matches reports whether a volume's folder looks as if Apply had been through.
func matches(info fs.FileInfo, gid int64, r Request) bool {
	want := r.Access.bits(info.Mode())
	return info.IsDir() && gid == r.Group && info.Mode()&want == want
}
