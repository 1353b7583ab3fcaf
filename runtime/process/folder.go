// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Every access to the state uses an os.Root, so that neither a name nor a link made by a container
// leads out of the state folder.

// openRoot opens the state folder. The error is fs.ErrNotExist if the folder was never made.
func (r *Runtime) openRoot() (*os.Root, error) { return os.OpenRoot(r.root) }

// makeRoot opens the state folder, and makes a missing folder.
func (r *Runtime) makeRoot() (*os.Root, error) {
	if err := os.MkdirAll(r.root, 0o700); err != nil {
		return nil, err
	}
	return r.openRoot()
}

// openDir opens a folder below the state folder. The error is runtime.ErrNotFound for a missing
// folder.
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

// notFound turns fs.ErrNotExist into runtime.ErrNotFound.
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
	intact bool // rec was read from the record or from a copy
	boot   bootCheck
}

// openSandbox opens the sandbox with the ID. The error is runtime.ErrNotFound for an unknown ID.
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
	r.restoreSandbox(s)
	return s, nil
}

// restoreSandbox restores the record of a sandbox from a copy. Each container of the sandbox has a
// copy.
func (r *Runtime) restoreSandbox(s *sandbox) {
	keys, _ := s.containers() // an unreadable folder has no copy
	for _, key := range keys {
		spec, err := record.Read[record.Spec](s.dir, filepath.Join(key.base(), record.SpecFile))
		if err != nil || spec.Sandbox == nil || spec.Sandbox.UID != string(s.key.uid) {
			continue
		}
		s.rec, s.boot.sandbox, s.intact = *spec.Sandbox, spec.Sandbox.BootID, true
		path := filepath.Join(s.key.dir(), record.SandboxFile)
		if err := record.Restore(s.dir, record.SandboxFile, s.rec); err != nil {
			r.report(path+" (restore)", err)
			return
		}
		r.log.Info("Restored a damaged record", zap.String("path", path))
		return
	}
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
	names, err := foldersIn(s.dir, ".")
	var keys []containerKey
	for _, name := range names {
		if key, ok := parseContainerDir(s.key, name); ok {
			keys = append(keys, key)
		}
	}
	return keys, err
}

// usable returns the reason why no container may be made or started, or nil.
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
	case s.rec.Network:
		_, err = s.network()
	}
	return err
}

// instance is an open container folder.
type instance struct {
	key  containerKey
	dir  *os.Root
	path string // of dir, absolute
	boot bootCheck
}

// open opens a container of the sandbox. The error is runtime.ErrNotFound for a removed container.
func (s *sandbox) open(r *Runtime, key containerKey) (*instance, error) {
	dir, err := s.dir.OpenRoot(key.base())
	if err != nil {
		return nil, notFound(err)
	}
	return &instance{key: key, dir: dir, path: filepath.Join(r.root, key.dir()), boot: s.boot}, nil
}

// openContainer opens the container with the ID and the container's sandbox. The error is
// runtime.ErrNotFound for an unknown ID.
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

// gone reports whether the folder was removed or renamed.
func (in *instance) gone() bool {
	_, err := os.Lstat(in.path)
	return errors.Is(err, fs.ErrNotExist)
}

// sandboxes returns the keys of a pod's sandboxes. An unknown pod has no sandboxes.
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
	names, err := foldersIn(dir, ".")
	var keys []sandboxKey
	for _, name := range names {
		if key, ok := parseSandboxDir(uid, name); ok {
			keys = append(keys, key)
		}
	}
	return keys, err
}

// foldersIn returns the names of the folders in the folder rel below root. A removed folder has none.
func foldersIn(root *os.Root, rel string) (names []string, err error) {
	list, err := tree.List(root, rel)
	for _, c := range list {
		if c.Type.IsDir() {
			names = append(names, c.Name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return names, err
}

// Prefixes of the names of folders that are being made, and of folders that are being removed.
const (
	newPrefix  = ".new-"
	gonePrefix = ".gone-"
)

// place makes the folder name in parent atomically, with the content written by build. place locks
// the folder until the end, so that an unlocked folder with a temporary name is known to come from
// a killed agent.
func place(parent *os.Root, name string, build func(dir *os.Root) error) error {
	for tries := 0; ; tries++ {
		tmp := newPrefix + newSalt()
		if err := parent.Mkdir(tmp, 0o700); err != nil {
			return err
		}
		lock, err := record.LockFolder(parent, tmp)
		if err != nil && tries < 3 {
			continue // the folder was collected as a leftover before the lock
		}
		if err == nil {
			err = fill(parent, tmp, build)
		}
		if err == nil {
			err = parent.Rename(tmp, name)
		}
		if err != nil {
			err = errors.Join(err, tree.RemoveAll(parent, tmp))
		}
		if lock != nil {
			_ = lock.Close()
		}
		return err
	}
}

func fill(parent *os.Root, name string, build func(dir *os.Root) error) error {
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	return errors.Join(build(dir), dir.Close())
}

// discard renames the folder, which hides the folder from every later call, and then removes the
// folder. Links are removed, never followed.
func discard(parent *os.Root, name string) error {
	tmp := gonePrefix + newSalt()
	if err := parent.Rename(name, tmp); err != nil {
		return err
	}
	if err := tree.RemoveAll(parent, tmp); err != nil {
		return fmt.Errorf("remove the rest: %w", err)
	}
	return nil
}
