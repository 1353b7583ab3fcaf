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

// dir is an open folder. Without openat2, another mount is recognized by its device number.
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

// stat returns the FileInfo of d, to identify the folder.
func (d *dir) stat() (fs.FileInfo, error) { return d.root.Stat(".") }

// reopen opens the folder at index above once more, from the top: os.Root does not go up.
func (w *way) reopen(above int) (*dir, error) {
	at, err := w.frames[0].dir.root.OpenRoot(".")
	for _, f := range w.frames[1 : above+1] {
		if err != nil {
			break
		}
		var next *os.Root
		next, err = at.OpenRoot(f.name)
		at.Close()
		at = next
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMoved
	}
	if err != nil {
		return nil, err
	}
	d, err := openRoot(at, ".")
	at.Close()
	return d, err
}

// visitFiles visits the files in d and calls folder with the names of the folders. Mounts are left out.
func (d *dir) visitFiles(visit func(*Entry) error, folder func(string)) error {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			folder(e.Name())
		} else if err := d.visit(e.Name(), e.Name(), visit); err != nil {
			return err
		}
	}
	return nil
}

func (d *dir) visitSelf(name string, visit func(*Entry) error) error {
	return d.visit(".", name, visit)
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
	e := Entry{
		Name: as, Mode: info.Mode(), UID: uid, GID: gid,
		chown: func(uid, gid int) error { return d.root.Lchown(name, uid, gid) },
		chmod: func(m fs.FileMode) error { return d.root.Chmod(name, m) },
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		e.Allocated, e.Inode, e.Links = st.Blocks*512, st.Ino, uint64(st.Nlink)
	}
	return visit(&e)
}
