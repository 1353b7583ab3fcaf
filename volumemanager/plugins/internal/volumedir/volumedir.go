// SPDX-License-Identifier: Apache-2.0

// Package volumedir creates and removes the folders of volumes below the agent's root. A link in a
// path never leads out of the root.
package volumedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/keelson-dev/keelson/internal/missing"
	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// parentMode is the mode of the folders above a volume's folder.
const parentMode = 0o750

// ErrForeignMount reports a mount at a volume's folder that its plugin does not make.
var ErrForeignMount = errors.New("something else is mounted there")

// Named adds the name of the volume to an error, and keeps its class.
func Named(volume string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("volume %q: %w", volume, err)
}

// Make opens the folder of a volume, and creates the folder with its parents if necessary. A new
// folder gets the mode, subject to umask.
func Make(p volumemanager.Place, mode fs.FileMode) (dir *os.Root, made bool, err error) {
	parent, made, err := makeIn(p, mode)
	if err != nil {
		return nil, false, err
	}
	defer parent.Close()
	if made {
		dir, err = parent.OpenRoot(p.Inner)
	} else {
		dir, err = open(parent, p.Inner)
	}
	return dir, made, err
}

// MakeFile is like Make for a folder without search permission, and returns the folder as a file.
func MakeFile(p volumemanager.Place, mode fs.FileMode) (dir *os.File, made bool, err error) {
	parent, made, err := makeIn(p, mode)
	if err != nil {
		return nil, false, err
	}
	defer parent.Close()
	dir, err = parent.OpenFile(p.Inner, onlyDir, 0)
	return dir, made, err
}

const onlyDir = os.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NOFOLLOW

// makeIn creates the folder of a volume if the name is free, and returns the parent of the folder.
func makeIn(p volumemanager.Place, mode fs.FileMode) (parent *os.Root, made bool, err error) {
	if err := p.Check(); err != nil {
		return nil, false, err
	}
	parent, err = parentOf(p)
	if err != nil {
		return nil, false, err
	}
	switch err := parent.Mkdir(p.Inner, mode); {
	case err == nil:
		return parent, true, nil
	case errors.Is(err, fs.ErrExist):
		return parent, false, nil
	default:
		parent.Close()
		return nil, false, err
	}
}

// parentOf opens the folder above a volume's folder, and creates it if necessary.
func parentOf(p volumemanager.Place) (*os.Root, error) {
	pod, rest, err := podOf(p)
	if err != nil {
		return nil, err
	}
	defer pod.Close()
	parent, err := pod.OpenRoot(rest)
	if !errors.Is(err, fs.ErrNotExist) {
		return parent, err
	}
	if err := pod.MkdirAll(rest, parentMode); err != nil {
		return nil, err
	}
	return pod.OpenRoot(rest)
}

// podOf opens the folder of the pod, or the root if the pod has no folder, and returns the relative
// path of the folder above the volume's folder.
func podOf(p volumemanager.Place) (dir *os.Root, rest string, err error) {
	root, err := os.OpenRoot(p.Root)
	if err != nil {
		return nil, "", err
	}
	name, err := filepath.Rel(p.Root, p.PodDir())
	if err != nil {
		root.Close()
		return nil, "", err
	}
	above := filepath.Dir(p.Dir())
	if dir, err := root.OpenRoot(name); err == nil {
		root.Close()
		rest, err := filepath.Rel(p.PodDir(), above)
		return dir, rest, err
	}
	rest, err = filepath.Rel(p.Root, above)
	return root, rest, err
}

// Open opens the folder of a volume.
func Open(p volumemanager.Place) (*os.Root, error) {
	root, name, err := at(p)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return open(root, name)
}

// OpenFile is like Open, and returns the folder as a file.
func OpenFile(p volumemanager.Place) (*os.File, error) {
	root, name, err := at(p)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(name, onlyDir, 0)
}

// at opens the root, and returns the relative path of a volume's folder.
func at(p volumemanager.Place) (*os.Root, string, error) {
	if err := p.Check(); err != nil {
		return nil, "", err
	}
	name, err := filepath.Rel(p.Root, p.Dir())
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(p.Root)
	return root, name, err
}

// open opens a folder; a link is an error.
func open(root *os.Root, name string) (*os.Root, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	return root.OpenRoot(name)
}

// Chmod sets the mode of a folder regardless of umask, if the mode differs.
func Chmod(dir *os.Root, mode fs.FileMode) error {
	info, err := dir.Stat(".")
	if err != nil || info.Mode()&^fs.ModeDir == mode {
		return err
	}
	return dir.Chmod(".", mode)
}

// Remove removes the folder of a volume with its content. A mount in the folder stays and is an
// error.
func Remove(p volumemanager.Place) error {
	root, name, err := at(p)
	if err != nil {
		return missing.Ignore(err)
	}
	defer root.Close()
	return tree.RemoveAll(root, filepath.ToSlash(name))
}

// RemoveEmpty removes the empty folder of a volume, or a link at its path. A missing folder is not
// an error; a folder with content is an error.
func RemoveEmpty(p volumemanager.Place) error {
	root, name, err := at(p)
	if err != nil {
		return missing.Ignore(err)
	}
	defer root.Close()
	return missing.Ignore(root.Remove(name))
}

// Unmount unmounts the mounts at the volume's folder, if their types are in types. A mount of
// another type may contain user data: it stays, and Unmount returns ErrForeignMount.
func Unmount(ctx context.Context, p volumemanager.Place, m mount.Mounter, types ...string) error {
	for {
		info, mounted, err := m.At(p.Dir())
		if err != nil || !mounted {
			return err
		}
		ours := false
		for _, t := range types {
			ours = ours || info.Type == t
		}
		if !ours {
			return fmt.Errorf("unmount %s, a %s: %w", p.Dir(), info.Type, ErrForeignMount)
		}
		if err := m.Unmount(ctx, p.Dir()); err != nil {
			return err
		}
	}
}
