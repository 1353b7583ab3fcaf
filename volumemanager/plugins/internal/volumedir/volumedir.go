// SPDX-License-Identifier: Apache-2.0

// Package volumedir makes and removes the folders of a volume below the agent's root, whatever links somebody put on
// the way: none leads out of the root.
package volumedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// parentMode is that of the folders above a volume's own.
const parentMode = 0o750

// ErrForeignMount says that something is mounted at a volume's folder that its plugin does not mount there.
var ErrForeignMount = errors.New("something else is mounted there")

// Make opens the folder of a volume, and makes it, with its parents, if it is not there.
func Make(p volumemanager.Place) (dir *os.Root, made bool, err error) {
	if err := p.Check(); err != nil {
		return nil, false, err
	}
	return makeAt(p, p.Dir())
}

func makeAt(p volumemanager.Place, at string) (dir *os.Root, made bool, err error) {
	root, err := os.OpenRoot(p.Root)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	name, err := filepath.Rel(p.Root, at)
	if err != nil {
		return nil, false, err
	}
	if err := root.MkdirAll(filepath.Dir(name), parentMode); err != nil {
		return nil, false, err
	}
	err = root.Mkdir(name, parentMode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, false, err
	}
	made = err == nil
	dir, err = open(root, name)
	return dir, made, err
}

// Open opens the folder of a volume.
func Open(p volumemanager.Place) (*os.Root, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(p.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name, err := filepath.Rel(p.Root, p.Dir())
	if err != nil {
		return nil, err
	}
	return open(root, name)
}

// open opens a folder that is no link.
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

// Chmod gives a folder its mode, past umask, if it has another.
func Chmod(dir *os.Root, mode fs.FileMode) error {
	info, err := dir.Stat(".")
	if err != nil || info.Mode()&^fs.ModeDir == mode {
		return err
	}
	return dir.Chmod(".", mode)
}

// Remove removes the folder of a volume with all that is in it. What is mounted below stays, and is an error.
func Remove(p volumemanager.Place) error { return remove(p, p.Dir()) }

// RemoveEmpty removes the folder of a volume, a link in its place, or nothing if there is none. A folder that is not
// empty is an error.
func RemoveEmpty(p volumemanager.Place) error {
	root, name, err := resolve(p, p.Dir())
	if root == nil || err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// resolve opens the root and returns the path of at below it; a nil root if there is none.
func resolve(p volumemanager.Place, at string) (*os.Root, string, error) {
	if err := p.Check(); err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(p.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	name, err := filepath.Rel(p.Root, at)
	if err != nil {
		root.Close()
		return nil, "", err
	}
	return root, name, nil
}

func remove(p volumemanager.Place, at string) error {
	root, name, err := resolve(p, at)
	if root == nil || err != nil {
		return err
	}
	defer root.Close()
	return tree.RemoveAll(root, filepath.ToSlash(name))
}

// MakeState opens the folder for what is remembered of a volume, and makes it if it is not there.
func MakeState(p volumemanager.Place) (*os.Root, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	dir, _, err := makeAt(p, p.StateDir())
	return dir, err
}

// HasState reports whether there is a file in the volume's StateDir.
func HasState(p volumemanager.Place, file string) (bool, error) {
	root, name, err := resolve(p, filepath.Join(p.StateDir(), file))
	if root == nil || err != nil {
		return false, err
	}
	defer root.Close()
	_, err = root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// RemoveState removes a file from the volume's StateDir.
func RemoveState(p volumemanager.Place, file string) error {
	return remove(p, filepath.Join(p.StateDir(), file))
}

// Unmount takes away what is mounted at the volume's folder, if it is of one of the file systems that the plugin
// mounts. Anything else may hold somebody's data: it is left, and ErrForeignMount.
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
