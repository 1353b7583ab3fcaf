// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// MaxDescriptors is the maximum number of file descriptors held at once by a call of the package.
const MaxDescriptors = 32

// ErrMount means that a folder to enter is a mount point. The content of the mount was not touched.
var ErrMount = errors.New("something is mounted there")

// ErrMoved means that a folder was moved to another folder during the call. Another call can do the remaining work.
var ErrMoved = errors.New("a folder was moved meanwhile")

// errNotDir means that a folder to enter is a link, a file, or missing.
var errNotDir = errors.New("not a directory")

const (
	// batch is how many names are read at a time.
	batch = 1024
	// unlockedMode is the mode of a folder to empty.
	unlockedMode = 0o700
)

// RemoveAll removes name, a slash-separated path below root, with its content. A missing name is no error. Links are
// removed, not followed. A mount below name stays, with its parent folders, and is reported as ErrMount; everything
// else is removed. If the owner has removed the permissions of a folder, RemoveAll restores the permissions.
func RemoveAll(root *os.Root, name string) error {
	if !filepath.IsLocal(name) || path.Clean(name) == "." {
		return fmt.Errorf("remove %q: not a path below a folder", name)
	}
	err := root.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, lerr := root.Lstat(name); lerr != nil || !info.IsDir() {
		return err
	}
	parent, err := openRoot(root, path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.close()
	base := path.Base(name)
	if err := empty(parent, base); err != nil {
		return fmt.Errorf("remove %q: %w", name, err)
	}
	if err := parent.remove(base, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Entry is a file or folder visited by Walk. An Entry is valid only during the call.
type Entry struct {
	// Name is the last path element; "." for the top folder of the walk.
	Name string
	// Mode holds the type and permissions, UID and GID the owner, as of the start of the visit.
	Mode fs.FileMode
	UID  int
	GID  int
	// Allocated is the space on the disk in bytes. It is zero on systems without this number.
	Allocated int64
	// Inode identifies the file within its file system, and Links is the number of names of the file.
	Inode, Links uint64

	chown func(uid, gid int) error
	chmod func(fs.FileMode) error
}

// Chown changes the owner of the entry itself, never of a link's target.
func (e *Entry) Chown(uid, gid int) error { return e.chown(uid, gid) }

// Chmod sets the permissions of the entry. Chmod must not be called for links.
func (e *Entry) Chmod(m fs.FileMode) error { return e.chmod(m) }

// Walk calls visit for every entry in the folder name below root and, last, for the folder itself. The content of a
// folder comes before the folder. Walk does not follow links, and does not visit mounts. An error of visit ends the
// walk. If a folder is moved to another folder during the walk, Walk returns ErrMoved.
func Walk(root *os.Root, name string, visit func(*Entry) error) error {
	top, err := openRoot(root, name)
	if err != nil {
		return err
	}
	way, err := newWay(top, ".")
	if err != nil {
		return err
	}
	defer way.close()
	if err := list(way, visit); err != nil {
		return err
	}
	for {
		f := way.last()
		if n := len(f.folders); n > 0 {
			name := f.folders[n-1]
			f.folders = f.folders[:n-1]
			if err := walkInto(way, name, visit); err != nil {
				return err
			}
			continue
		}
		if err := way.openParent(); err != nil {
			return err
		}
		if err := f.dir.visitSelf(f.name, visit); err != nil {
			return err
		}
		if way.leave() {
			return nil
		}
	}
}

// walkInto enters a folder, if still present, and visits its files.
func walkInto(way *way, name string, visit func(*Entry) error) error {
	child, err := way.last().dir.sub(name)
	switch {
	case errors.Is(err, ErrMount), errors.Is(err, errNotDir):
		return nil
	case err != nil:
		return err
	}
	if err := way.enter(child, name); err != nil {
		return err
	}
	return list(way, visit)
}

// list visits the files in the last folder of the way, and stores the names of its folders for later.
func list(way *way, visit func(*Entry) error) error {
	f := way.last()
	return f.dir.visitFiles(visit, func(folder string) { f.folders = append(f.folders, folder) })
}

// Cause returns the cause of err without operation and path, for errors with their own description of the file. The
// result shows neither paths of the node nor very long names.
func Cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}
