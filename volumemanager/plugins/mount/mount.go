// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"errors"
	"fmt"

	"github.com/moby/sys/mountinfo"
)

// ErrUnsupported says that this process cannot mount: it is not root, or the system is not Linux.
var ErrUnsupported = errors.New("this agent cannot mount")

// Mounter changes and reads the mount table. It is safe for concurrent use. Paths are absolute and without links in
// what containers may write to.
type Mounter interface {
	// Mount does what r says, over whatever is mounted at its target. An error that wraps ErrUnsupported means that
	// this Mounter never will. If it fails nothing has changed.
	Mount(ctx context.Context, r Request) error
	// Unmount takes away all that is mounted at target itself; what is below keeps it busy. That nothing is, or that
	// there is no target, is no error. It does not follow a link.
	Unmount(ctx context.Context, target string) error
	// At returns what is mounted at path, the uppermost; false if nothing is. It does not ask the file system that is
	// mounted, so that it cannot hang.
	At(path string) (Info, bool, error)
	// List returns all mounts of this mount namespace, in order of mounting.
	List() ([]Info, error)
}

// Request is something to be mounted.
type Request struct {
	// Source is the folder, file or device; for a file system without one, a word for the mount table.
	Source string
	// Target is the folder it shall appear at, or the file, if Source is a file that is bound.
	Target string
	// Type is the file system's; unused for a bind mount.
	Type string
	// Options are as in fstab: flags of mounts (ro, nosuid, nodev, noexec, noatime…), bind and rbind, and the
	// file system's own. With remount and bind, what is mounted at the target gets the flags, too; it keeps those that
	// restrict it.
	Options []string
}

// Info is one line of the mount table.
type Info struct {
	// Target is where, Source and Type what, Root which part of its file system.
	Target, Source, Type, Root string
	// Options are flags of this mount, FSOptions those of the file system; comma-separated.
	Options, FSOptions string
	// Major and Minor number the device of the file system.
	Major, Minor int
}

func infoOf(m *mountinfo.Info) Info {
	return Info{
		Target: m.Mountpoint, Source: m.Source, Type: m.FSType, Root: m.Root,
		Options: m.Options, FSOptions: m.VFSOptions, Major: m.Major, Minor: m.Minor,
	}
}

// list reads the whole mount table.
func list() ([]Info, error) {
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	out := make([]Info, 0, len(mounts))
	for _, m := range mounts {
		out = append(out, infoOf(m))
	}
	return out, nil
}

// Points returns where something is mounted. It fits volumemanager.MountTableFunc.
func Points() ([]string, error) {
	mounts, err := list()
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(mounts))
	for _, m := range mounts {
		out = append(out, m.Target)
	}
	return out, nil
}

// at reads the line of one mount point.
func at(path string) (Info, bool, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil {
		return Info{}, false, fmt.Errorf("read the mount table: %w", err)
	}
	if len(mounts) == 0 {
		return Info{}, false, nil
	}
	return infoOf(mounts[len(mounts)-1]), true, nil
}

// None is a Mounter that does not mount. It reads the mount table, so that what somebody else mounted is not taken for
// a folder.
type None struct{}

// Mount returns ErrUnsupported.
func (None) Mount(_ context.Context, r Request) error {
	return fmt.Errorf("mount %s at %s: %w", r.what(), r.Target, ErrUnsupported)
}

// Unmount returns ErrUnsupported if there is something to unmount.
func (n None) Unmount(_ context.Context, target string) error {
	if _, mounted, err := n.At(target); err != nil || !mounted {
		return err
	}
	return fmt.Errorf("unmount %s: %w", target, ErrUnsupported)
}

func (r Request) what() string {
	if r.Type != "" {
		return r.Type
	}
	return r.Source
}
