// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
)

// ErrMount says that something is mounted where a folder was to be entered. What is mounted there was not touched.
var ErrMount = errors.New("something is mounted there")

// errNotDir says that what was to be entered is a link, a file, or gone.
var errNotDir = errors.New("not a directory")

const (
	// batch is how many names are read at a time.
	batch = 1024
	// unlockedMode is that of a folder that is to be emptied.
	unlockedMode = 0o700
	// maxDepth is how deep RemoveAll descends, one file descriptor each, before it moves what is deeper to the top.
	maxDepth = 64
)

// RemoveAll removes name, a slash-separated path below root, with all that is in it. That it is not there is no error.
// Links are removed, not followed. A mount below name is left alone, with the folders that lead to it, and reported as
// ErrMount; everything else is gone then, too.
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
	top, err := parent.sub(base)
	if errors.Is(err, fs.ErrPermission) && parent.unlock(base) == nil {
		top, err = parent.sub(base)
	}
	if err != nil {
		return fmt.Errorf("remove %q: %w", name, err)
	}
	defer top.close()
	r := remover{top: top}
	if err := r.empty(top, 0); err != nil {
		return fmt.Errorf("remove %q: %w", name, err)
	}
	if err := parent.remove(base, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

type remover struct {
	top   *dir
	moved int
}

// empty removes what is in d. It goes on past what cannot be removed and returns the first error.
func (r *remover) empty(d *dir, depth int) error {
	// An agent that is not root finds folders that it owns and may not write to.
	unlocked := false
	for {
		names, err := d.names()
		if err != nil || len(names) == 0 {
			return err
		}
		var first error
		removed := 0
		for _, n := range names {
			switch err := r.remove(d, n, depth); {
			case err == nil:
				removed++
			case first == nil:
				first = err
			}
		}
		if removed > 0 {
			continue
		}
		if unlocked || !errors.Is(first, fs.ErrPermission) || d.unlockSelf() != nil {
			return first
		}
		unlocked = true
	}
}

func (r *remover) remove(d *dir, n string, depth int) error {
	err := d.remove(n, false)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	child, serr := d.sub(n)
	if errors.Is(serr, fs.ErrPermission) && d.unlock(n) == nil {
		child, serr = d.sub(n)
	}
	switch {
	case errors.Is(serr, errNotDir):
		return err
	case serr != nil:
		return fmt.Errorf("%q: %w", n, serr)
	}
	defer child.close()
	if depth < maxDepth {
		if err := r.empty(child, depth+1); err != nil {
			return fmt.Errorf("%q: %w", n, err)
		}
	} else if grandchildren, err := child.names(); err != nil || len(grandchildren) > 0 {
		if err != nil {
			return err
		}
		return r.lift(d, n)
	}
	if err := d.remove(n, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lift moves a folder that is too deep to the top, where the loop of empty finds it again.
func (r *remover) lift(d *dir, n string) error {
	var err error
	for range 100 {
		r.moved++
		if err = d.rename(n, r.top, ".removing-"+strconv.Itoa(r.moved)); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// Entry is one thing Walk came to. It is valid during the call.
type Entry struct {
	// Name is its last path element; "." for the folder where the walk began.
	Name string
	// Mode is type and permissions, GID the owning group; as they were on arrival.
	Mode fs.FileMode
	UID  int
	GID  int

	chown func(uid, gid int) error
	chmod func(fs.FileMode) error
}

// Chown changes the owner of the entry itself, never of what a link points to. -1 leaves an ID as it is.
func (e *Entry) Chown(uid, gid int) error { return e.chown(uid, gid) }

// Chmod sets the permissions of the entry. It is not for links.
func (e *Entry) Chmod(m fs.FileMode) error { return e.chmod(m) }

// Walk calls visit for everything in the folder name below root and, last, for the folder itself; what is in a folder
// comes before it. It does not follow links, and what is mounted below is not visited at all. An error of visit ends
// the walk.
func Walk(root *os.Root, name string, visit func(*Entry) error) error {
	d, err := openRoot(root, name)
	if err != nil {
		return err
	}
	defer d.close()
	return d.walk(visit, ".")
}

// Cause returns what went wrong without the operation and the path: for errors that name the file in their own words,
// and show neither the node's paths nor a name of a mebibyte.
func Cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}
