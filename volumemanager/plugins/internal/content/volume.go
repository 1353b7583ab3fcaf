// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/ownership"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/payload"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/volumedir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// Medium is the storage of the files.
type Medium int

// The media.
const (
	Disk Medium = iota
	// Memory is a tmpfs; if the agent cannot mount, a folder on the disk.
	Memory
)

// dirMode is the mode of the volume's folder: containers read, the agent writes.
const dirMode = 0o755

const tmpfs = "tmpfs"

// Volumes sets up and tears down volumes of files.
type Volumes struct {
	Mounter mount.Mounter
	Medium  Medium
}

// SetUp replaces the content of the volume by p. After an error, a volume in use keeps its folder
// and its last good content.
func (v Volumes) SetUp(ctx context.Context, m volumemanager.Mount, p payload.Payload) (volumemanager.Mounted, error) {
	mounted := volumemanager.Mounted{Path: m.Dir(), ReadOnly: true, Managed: true, SELinuxRelabel: true}
	return mounted, volumedir.Named(m.Spec.InnerName(), v.setUp(ctx, m, p))
}

func (v Volumes) setUp(ctx context.Context, m volumemanager.Mount, p payload.Payload) error {
	nested, err := nestedMounts(m.Pod, m.Outer)
	if err != nil {
		return volumemanager.Terminal(err)
	}
	if ctx.Err() != nil {
		return volumemanager.Transient(context.Cause(ctx))
	}
	dir, fresh, err := v.open(ctx, m.Place)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := volumedir.Chmod(dir, dirMode); err != nil {
		return tree.Cause(err)
	}
	o := payload.Options{Keep: v.keeper(m.Place), Fresh: fresh}
	if m.FSGroup != nil {
		r := ownership.Request{Group: *m.FSGroup, Access: ownership.ReadOnly}
		o.Own = func(root *os.Root, version string) error { return ownership.Apply(ctx, root, version, r) }
	}
	if _, err := payload.Write(ctx, dir, p, o); err != nil {
		return err
	}
	for _, n := range nested {
		if err := dir.MkdirAll(n, dirMode); err != nil {
			return fmt.Errorf("folder %s to mount at: %w", payload.Shown(n), tree.Cause(err))
		}
	}
	return nil
}

// open opens the volume's folder. If necessary, open creates the folder and mounts a tmpfs on it.
// fresh reports an empty folder.
func (v Volumes) open(ctx context.Context, p volumemanager.Place) (dir *os.Root, fresh bool, err error) {
	dir, fresh, err = volumedir.Make(p, dirMode)
	if err != nil || v.Medium == Disk {
		return dir, fresh, err
	}
	mounted := false
	if !fresh {
		_, mounted, err = v.Mounter.At(p.Dir())
	}
	if err == nil && !mounted && (fresh || isEmpty(dir)) { // a folder with content is in use without a tmpfs
		err = v.Mounter.Mount(ctx, mount.Request{
			Source: tmpfs, Target: p.Dir(), Type: tmpfs, Options: []string{"nosuid", "nodev", "mode=0755"},
		})
		switch {
		case errors.Is(err, mount.ErrUnsupported):
			err = nil
		case err == nil:
			dir.Close()
			dir, err = volumedir.Open(p)
			return dir, true, err
		}
	}
	if err != nil {
		dir.Close()
		return nil, false, err
	}
	return dir, fresh, nil
}

func isEmpty(dir *os.Root) bool {
	f, err := dir.Open(".")
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return len(names) == 0
}

// keeper returns a func that reports whether a subPath of a container still uses an old version
// (issue 68211: a container could not be started again after its file was removed).
func (v Volumes) keeper(p volumemanager.Place) func(version string) bool {
	return func(version string) bool {
		if _, err := os.Lstat(p.SubpathsDir()); errors.Is(err, fs.ErrNotExist) {
			return false
		}
		mounts, err := v.Mounter.List()
		if err != nil {
			return true
		}
		for _, m := range mounts {
			if strings.HasPrefix(m.Target, p.SubpathsDir()+"/") && strings.Contains(m.Root+"/", "/"+version+"/") {
				return true
			}
		}
		return false
	}
}

// TearDown removes the volume.
func (v Volumes) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	var ours []string
	if v.Medium == Memory {
		ours = []string{tmpfs}
	}
	err := volumedir.Unmount(ctx, u.Place, v.Mounter, ours...)
	if err == nil {
		err = volumedir.Remove(u.Place)
	}
	return volumedir.Named(u.Inner, err)
}
