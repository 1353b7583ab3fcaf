// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Every access to the state goes through an os.Root, so that neither a name nor
// a link a container planted leads out of it.

// openRoot opens the state folder: fs.ErrNotExist if nothing was ever made.
func (r *Runtime) openRoot() (*os.Root, error) { return os.OpenRoot(r.root) }

// makeRoot opens the state folder, and makes it if it is missing.
func (r *Runtime) makeRoot() (*os.Root, error) {
	if err := os.MkdirAll(r.root, 0o700); err != nil {
		return nil, err
	}
	return r.openRoot()
}

// openDir opens a folder below the state folder: runtime.ErrNotFound if it is
// not there.
func (r *Runtime) openDir(rel string) (*os.Root, error) {
	root, err := r.openRoot()
	if err == nil {
		defer root.Close()
		var dir *os.Root
		if dir, err = root.OpenRoot(rel); err == nil {
			return dir, nil
		}
	}
	return nil, notFound(err)
}

// notFound turns the file system's word for it into the runtime's.
func notFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return runtime.ErrNotFound
	}
	return err
}

// sandbox is an open sandbox folder.
type sandbox struct {
	key    sandboxKey
	dir    *os.Root
	rec    record.Sandbox
	intact bool // rec could be read
	boot   bootCheck
}

// openSandbox opens a sandbox by its ID: runtime.ErrNotFound if there is none.
func (r *Runtime) openSandbox(id runtime.SandboxID) (*sandbox, error) {
	key, ok := parseSandboxID(id)
	if !ok {
		return nil, runtime.ErrNotFound
	}
	boot, err := proc.BootID()
	if err != nil {
		return nil, fmt.Errorf("boot ID: %w", err)
	}
	dir, err := r.openDir(key.dir())
	if err != nil {
		return nil, err
	}
	s := &sandbox{key: key, dir: dir, boot: bootCheck{now: boot}}
	rec, err := record.Read[record.Sandbox](dir, record.SandboxFile)
	if s.intact = err == nil; s.intact {
		s.rec, s.boot.sandbox = rec, rec.BootID
		return s, nil
	}
	if _, gone := os.Lstat(filepath.Join(r.root, key.dir())); errors.Is(gone, fs.ErrNotExist) {
		s.close()
		return nil, runtime.ErrNotFound
	}
	r.report(filepath.Join(dir.Name(), record.SandboxFile), err)
	return s, nil
}

func (s *sandbox) close() { _ = s.dir.Close() }

// stopped reports whether StopSandbox was called.
func (s *sandbox) stopped() (bool, error) {
	_, err := s.dir.Lstat(record.StoppedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, err
}

// containers returns the keys of the sandbox's containers.
func (s *sandbox) containers() ([]containerKey, error) {
	names, err := subfolders(s.dir)
	var keys []containerKey
	for _, name := range names {
		if key, ok := parseContainerDir(s.key, name); ok {
			keys = append(keys, key)
		}
	}
	return keys, err
}

// usable says why no container may be made or started; nil if they may.
func (s *sandbox) usable() error {
	stopped, err := s.stopped()
	switch {
	case err != nil:
		return err
	case stopped:
		return errors.New("the sandbox is stopped")
	case !s.intact:
		return errors.New("the record of the sandbox is broken")
	case s.boot.sandbox != s.boot.now:
		return errors.New("the sandbox is from before the machine was restarted")
	}
	return nil
}

// instance is an open container folder.
type instance struct {
	key  containerKey
	dir  *os.Root
	path string // of dir, absolute
	boot bootCheck
}

// open opens one of the sandbox's containers: runtime.ErrNotFound if it is not
// there any more.
func (s *sandbox) open(r *Runtime, key containerKey) (*instance, error) {
	dir, err := s.dir.OpenRoot(key.base())
	if err != nil {
		return nil, notFound(err)
	}
	return &instance{key: key, dir: dir, path: filepath.Join(r.root, key.dir()), boot: s.boot}, nil
}

// openContainer opens a container and its sandbox by the container's ID:
// runtime.ErrNotFound if there is none.
func (r *Runtime) openContainer(id runtime.ContainerID) (*sandbox, *instance, error) {
	key, ok := parseContainerID(id)
	if !ok {
		return nil, nil, runtime.ErrNotFound
	}
	s, err := r.openSandbox(key.sandbox.id())
	if err != nil {
		return nil, nil, err
	}
	in, err := s.open(r, key)
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, in, nil
}

func (in *instance) close() { _ = in.dir.Close() }

// gone reports whether the folder is not where it was any more.
func (in *instance) gone() bool {
	_, err := os.Lstat(in.path)
	return errors.Is(err, fs.ErrNotExist)
}

// sandboxes returns the keys of a pod's sandboxes; none for an unknown pod.
func (r *Runtime) sandboxes(uid types.UID) ([]sandboxKey, error) {
	if checkName(string(uid)) != nil {
		return nil, nil
	}
	dir, err := r.openDir(string(uid))
	if errors.Is(err, runtime.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := subfolders(dir)
	var keys []sandboxKey
	for _, name := range names {
		if key, ok := parseSandboxDir(uid, name); ok {
			keys = append(keys, key)
		}
	}
	return keys, err
}

// subfolders returns the names of the folders in dir; none if dir was removed
// since it was opened.
func subfolders(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// place makes the folder name in parent out of what build puts in it: it is
// there whole or not at all.
func place(parent *os.Root, name string, build func(dir *os.Root) error) error {
	tmp := ".new-" + newSalt()
	if err := parent.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	dir, err := parent.OpenRoot(tmp)
	if err == nil {
		err = errors.Join(build(dir), dir.Close())
	}
	if err == nil {
		err = parent.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, parent.RemoveAll(tmp))
	}
	return nil
}

// discard removes the folder name from parent: at once for everybody who looks,
// then for good. Links are removed, never followed.
func discard(parent *os.Root, name string) error {
	tmp := ".gone-" + newSalt()
	if err := parent.Rename(name, tmp); err != nil {
		return err
	}
	if parent.RemoveAll(tmp) == nil {
		return nil
	}
	// A container may have taken its own rights to a folder away.
	_ = fs.WalkDir(parent.FS(), tmp, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = parent.Chmod(path, 0o700)
		}
		return nil
	})
	if err := parent.RemoveAll(tmp); err != nil {
		return fmt.Errorf("remove what is left: %w", err)
	}
	return nil
}
