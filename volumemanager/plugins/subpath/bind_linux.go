// SPDX-License-Identifier: Apache-2.0

package subpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// openPart opens a file or folder in root for binding, without reading it. Links are followed
// beneath root only.
func openPart(root *os.Root, sub string) (*os.File, error) {
	top, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer top.Close()
	for range 100 {
		fd, err := unix.Openat2(int(top.Fd()), sub, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
		})
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), sub), nil
		case unix.EINTR, unix.EAGAIN: // a concurrent rename: the kernel requires another lookup
		case unix.EXDEV, unix.ELOOP:
			return nil, errEscapes
		default:
			return nil, err
		}
	}
	return nil, fmt.Errorf("is renamed all the time: %w", unix.EAGAIN)
}

// bind mounts the opened part at the target of the request.
func (s *Subpaths) bind(ctx context.Context, r Request, part *os.File) (string, error) {
	var want unix.Stat_t
	if err := unix.Fstat(int(part.Fd()), &want); err != nil {
		return "", err
	}
	if _, none := s.mounter.(mount.None); none {
		return os.Readlink(procPath(part))
	}
	target := filepath.Join(r.Place.SubpathsDir(), r.Container, strconv.Itoa(r.Index))
	bound, err := s.isBound(ctx, target, &want)
	if err != nil || bound {
		return target, err
	}
	if err := makeTarget(r, target, want.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return "", err
	}
	err = s.mounter.Mount(ctx, mount.Request{Source: procPath(part), Target: target, Options: []string{"bind"}})
	if err != nil {
		return "", err
	}
	return target, nil
}

// procPath returns a path of the open file itself, also after a rename.
func procPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// isBound reports whether target is a mount of the wanted file. A mount of another file, or a
// broken mount, is unmounted.
func (s *Subpaths) isBound(ctx context.Context, target string, want *unix.Stat_t) (bool, error) {
	_, mounted, err := s.mounter.At(target)
	if err != nil || !mounted {
		return false, err
	}
	var have unix.Stat_t
	if unix.Stat(target, &have) == nil && have.Dev == want.Dev && have.Ino == want.Ino && have.Nlink > 0 {
		return true, nil
	}
	return false, s.mounter.Unmount(ctx, target)
}

// makeTarget creates the mount point: a folder or a file.
func makeTarget(r Request, target string, folder bool) error {
	root, err := os.OpenRoot(r.Place.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	name, err := filepath.Rel(r.Place.Root, target)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(name), dirMode); err != nil {
		return err
	}
	if info, err := root.Lstat(name); err == nil {
		if info.IsDir() == folder && info.Mode()&fs.ModeSymlink == 0 {
			return nil
		}
		if err := root.Remove(name); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if folder {
		return root.Mkdir(name, dirMode)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	return f.Close()
}
