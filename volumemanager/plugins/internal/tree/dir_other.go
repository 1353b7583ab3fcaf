// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// dir is an open folder. Where the kernel has no openat2, another mount is known by its device number.
type dir struct {
	root *os.Root
	dev  uint64
}

func openRoot(root *os.Root, name string) (*dir, error) {
	r, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	info, err := r.Stat(".")
	if err != nil {
		r.Close()
		return nil, err
	}
	return &dir{r, device(info)}, nil
}

func device(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}

func owner(info fs.FileInfo) (uid, gid int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return -1, -1
}

func (d *dir) close() { d.root.Close() }

func (d *dir) names() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(batch)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

func (d *dir) sub(name string) (*dir, error) {
	info, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, errNotDir
	}
	if err != nil {
		return nil, err
	}
	sub, err := openRoot(d.root, name)
	if err != nil {
		return nil, err
	}
	if sub.dev != d.dev {
		sub.close()
		return nil, ErrMount
	}
	return sub, nil
}

// remove unlinks name: an empty folder if folder, else anything but a folder.
func (d *dir) remove(name string, folder bool) error {
	info, err := d.root.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() != folder {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.EISDIR}
	}
	return d.root.Remove(name)
}

// unlock lets the owner into a folder in d.
func (d *dir) unlock(name string) error {
	if info, err := d.root.Lstat(name); err != nil || !info.IsDir() {
		return errNotDir
	}
	return d.root.Chmod(name, unlockedMode)
}

func (d *dir) unlockSelf() error { return d.root.Chmod(".", unlockedMode) }

// rename does not lift across roots here: a tree this deep is an error.
func (d *dir) rename(name string, _ *dir, _ string) error {
	return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENAMETOOLONG}
}

func (d *dir) walk(visit func(*Entry) error, as string) error {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if sub, err := d.sub(e.Name()); err == nil {
			err = sub.walk(visit, e.Name())
			sub.close()
			if err != nil {
				return err
			}
		} else if errors.Is(err, errNotDir) {
			if err := d.visit(e.Name(), e.Name(), visit); err != nil {
				return err
			}
		} else if !errors.Is(err, ErrMount) {
			return err
		}
	}
	return d.visit(".", as, visit)
}

func (d *dir) visit(name, as string, visit func(*Entry) error) error {
	info, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	uid, gid := owner(info)
	return visit(&Entry{
		Name: as, Mode: info.Mode(), UID: uid, GID: gid,
		chown: func(uid, gid int) error { return d.root.Lchown(name, uid, gid) },
		chmod: func(m fs.FileMode) error { return d.root.Chmod(name, m) },
	})
}
