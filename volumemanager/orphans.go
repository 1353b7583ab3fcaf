// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// CleanupOrphans removes the folders of pods that are gone for good, below
// pods/ of the root. Call it in housekeeping, once every source of pods has
// spoken. keep reports whether somebody still needs the folder of a pod: it is
// configured, or a container of it exists. A pod of which Pods does not say that it
// is gone is kept anyway.
//
// Volumes that are found in such a folder are taken in, torn down by their plugins
// with back-off, and the folder is removed by a later call. It never removes what
// could be data of a user:
//
//   - with a mount at or below the pod's folder, nothing is touched;
//   - the folders of volumes are removed only if they are empty;
//   - everything else is removed within one file system, without following links,
//     once no volume is left; and only if Options.Mounts is there to ask, else
//     only empty folders are.
//
// The error joins what is in the way, for each pod. The rest has been removed.
func (m *Manager) CleanupOrphans(ctx context.Context, keep func(types.UID) bool) error {
	uids, err := m.records.podsOnDisk()
	errs := []error{err}
	var mounts []string
	if m.options.Mounts != nil && len(uids) > 0 {
		if mounts, err = m.options.Mounts.MountPoints(); err != nil {
			return fmt.Errorf("read the mount table: %w", err)
		}
	}
	for _, uid := range uids {
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		if !isElement(string(uid)) || keep(uid) || !m.options.Pods.ShouldPodRuntimeBeRemoved(uid) {
			continue
		}
		if err := m.findPod(uid); err != nil {
			errs = append(errs, fmt.Errorf("orphaned pod %s: %w", uid, err))
		}
		if m.knows(uid) {
			m.PodChanged(uid) // unmounts; the folder is for the next call
			continue
		}
		if err := m.removePodDir(uid, mounts); err != nil {
			errs = append(errs, fmt.Errorf("orphaned pod %s: %w", uid, err))
		}
	}
	return errors.Join(errs...)
}

// removePodDir removes the folder of a pod without volumes.
func (m *Manager) removePodDir(uid types.UID, mounts []string) error {
	dir := filepath.Join(m.options.Root, "pods", string(uid))
	if below, err := mountsBelow(dir, mounts); err != nil || len(below) > 0 {
		return errors.Join(err, refuse("something is mounted at", below))
	}
	pods, err := os.OpenRoot(filepath.Join(m.options.Root, "pods"))
	if err != nil {
		return ignoreAbsence(err)
	}
	defer pods.Close()
	r := remover{root: pods}
	if info, err := pods.Lstat(string(uid)); err != nil || !info.IsDir() {
		return ignoreAbsence(err) // a file or link is nobody's pod
	} else if r.device, err = deviceOf(info); err != nil {
		return err
	}
	for _, top := range []struct {
		name  string
		depth int
		files fate
	}{
		{"volume-subpaths", 3, fateRemove}, // what was bound there is an empty file or folder
		{"volumeDevices", 2, fateKeep},
		{"volumes", 2, fateKeep},
	} {
		r.removeEmpty(filepath.Join(string(uid), top.name), top.depth, top.files)
	}
	if len(r.left) > 0 {
		return refuse("volumes are left at", r.left)
	}
	if m.options.Mounts == nil {
		r.removeEmpty(string(uid), 8, fateKeep)
	} else {
		r.removeAll(string(uid))
	}
	return errors.Join(refuse("cannot remove", r.left), errors.Join(r.errs...))
}

// refuse says what is in the way; nil if nothing is.
func refuse(what string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s", what, strings.Join(paths, ", "))
}

// mountsBelow returns the mount points at or below dir, however dir is reached.
func mountsBelow(dir string, mounts []string) ([]string, error) {
	if len(mounts) == 0 {
		return nil, nil
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return nil, ignoreAbsence(err)
	}
	real := filepath.Join(parent, filepath.Base(dir))
	var below []string
	for _, point := range mounts {
		if point == real || strings.HasPrefix(point, real+string(filepath.Separator)) {
			below = append(below, point)
		}
	}
	return below, nil
}

// fate is what becomes of a file.
type fate uint8

const (
	fateKeep fate = iota
	fateRemove
)

// remover removes below a root and on one device, and never follows a link.
type remover struct {
	root   *os.Root
	device uint64
	left   []string // what is not to be removed
	errs   []error
}

// names returns what is in a folder.
func (r *remover) names(dir string) []string {
	file, err := r.root.Open(dir)
	if err != nil {
		r.fail(err)
		return nil
	}
	defer file.Close()
	names, err := file.Readdirnames(-1)
	r.fail(err)
	slices.Sort(names)
	return names
}

func (r *remover) fail(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.errs = append(r.errs, err)
	}
}

// enter reports whether name is a folder on the same device.
func (r *remover) enter(name string) (folder, exists bool) {
	info, err := r.root.Lstat(name)
	if err != nil {
		r.fail(err)
		return false, false
	}
	if !info.IsDir() {
		return false, true
	}
	device, err := deviceOf(info)
	if err != nil || device != r.device {
		r.left = append(r.left, name+" (another file system)")
		return false, false
	}
	return true, true
}

// removeEmpty removes folders that are empty, down to depth below name, and files
// on the way if that is their fate. What is left is noted.
func (r *remover) removeEmpty(name string, depth int, files fate) {
	folder, exists := r.enter(name)
	switch {
	case !exists:
		return
	case !folder && (files == fateKeep || !r.empty(name)):
		r.left = append(r.left, name)
		return
	case folder && depth > 0:
		for _, entry := range r.names(name) {
			r.removeEmpty(filepath.Join(name, entry), depth-1, files)
		}
	}
	if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.left = append(r.left, name)
	}
}

// empty reports whether name is a regular file without content.
func (r *remover) empty(name string) bool {
	info, err := r.root.Lstat(name)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// removeAll removes name and all that is in it.
func (r *remover) removeAll(name string) {
	folder, exists := r.enter(name)
	if !exists {
		return
	}
	if folder {
		for _, entry := range r.names(name) {
			r.removeAll(filepath.Join(name, entry))
		}
	}
	r.fail(r.root.Remove(name))
}
