// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"errors"
	"fmt"

	"github.com/moby/sys/mountinfo"
)

// ErrUnsupported reports that the process is not root, or that the system is not Linux, and so
// cannot mount.
var ErrUnsupported = errors.New("this agent cannot mount")

// Mounter changes and reads the mount table. It is safe for concurrent use. Paths are absolute,
// without links in folders that containers may write to.
type Mounter interface {
	// Mount mounts r over any present mount at its target. An error that wraps ErrUnsupported is
	// permanent for this Mounter. After an error nothing has changed.
	Mount(ctx context.Context, r Request) error
	// Unmount unmounts all mounts at target itself. A mount below target is an error. A target
	// without a mount, or a missing target, is not an error. Unmount does not follow a link.
	Unmount(ctx context.Context, target string) error
	// At returns the uppermost mount at path; false if nothing is mounted at path. At does not
	// access the mounted file system, and so cannot hang.
	At(path string) (Info, bool, error)
	// List returns all mounts of this mount namespace, in order of mounting.
	List() ([]Info, error)
}

// Request is a mount to create.
type Request struct {
	// Source is the folder, file or device. For a file system without a source, Source is a name
	// for the mount table.
	Source string
	// Target is the folder to mount at, or the file, if Source is a file to bind.
	Target string
	// Type is the type of the file system; unused for a bind mount.
	Type string
	// Options are as in fstab: mount flags (ro, nosuid, nodev, noexec, noatime…), bind and rbind,
	// and options of the file system. With remount and bind, the present mount at the target gets
	// the flags, and keeps its restricting flags.
	Options []string
}

// Info is a line of the mount table.
type Info struct {
	// Target is the mount point. Source and Type are the mounted file system. Root is the mounted
	// folder in the file system.
	Target, Source, Type, Root string
	// Options are the flags of the mount, FSOptions the options of the file system;
	// comma-separated.
	Options, FSOptions string
	// Propagation has the peer groups of the mount, such as "shared:7 master:2". It is "" for a
	// private mount.
	Propagation string
	// Major and Minor are the device number of the file system.
	Major, Minor int
}

func infoOf(m *mountinfo.Info) Info {
	return Info{
		Target: m.Mountpoint, Source: m.Source, Type: m.FSType, Root: m.Root,
		Options: m.Options, FSOptions: m.VFSOptions, Propagation: m.Optional, Major: m.Major, Minor: m.Minor,
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

// Points returns all mount points. It fits volumemanager.MountTableFunc.
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

// at reads the line of a mount point.
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

// None is a Mounter that does not mount. None reads the mount table, so that a mount by another
// process is not taken for a folder.
type None struct{}

// Mount returns ErrUnsupported.
func (None) Mount(_ context.Context, r Request) error {
	return fmt.Errorf("mount %s at %s: %w", r.what(), r.Target, ErrUnsupported)
}

// Unmount returns ErrUnsupported if target is a mount point.
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
