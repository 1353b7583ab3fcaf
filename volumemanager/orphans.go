// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/missing"
	"github.com/keelson-dev/keelson/internal/tree"
)

// PodsOnDisk returns the UIDs of the pods with a folder below pods/ of the root.
func (m *Manager) PodsOnDisk() ([]types.UID, error) { return m.records.podsOnDisk() }

// CleanupOrphan removes the folder of a pod that is gone, below pods/ of the root. Call it in
// housekeeping for each pod of PodsOnDisk that is not configured and has no container, once every
// source of pods has reported. A pod that Pods does not report as gone is kept anyway, and a missing
// folder is no error.
//
// Volumes found in the folder are reconstructed and torn down by their plugins, with back-off. A
// later call removes the folder. CleanupOrphan never removes possible user data:
//
//   - if the pod's folder is or contains a mount point, nothing is touched;
//   - volume folders are removed only if they are empty;
//   - everything else is removed within one file system, without following links, once no volume is
//     left. Without Options.Mounts, only empty folders are removed.
//
// The error names the obstacles to the removal.
func (m *Manager) CleanupOrphan(uid types.UID) (err error) {
	if !isElement(string(uid)) {
		return nil // no folder has this name
	}
	if m.own != nil {
		m.own.orphan(uid)
	}
	if !m.options.Pods.ShouldPodRuntimeBeRemoved(uid) {
		return nil
	}
	var mounts []string
	if m.options.Mounts != nil {
		if mounts, err = m.options.Mounts.MountPoints(); err != nil {
			return fmt.Errorf("read the mount table: %w", err)
		}
	}
	err = m.findPod(uid)
	if m.hasEntry(uid) {
		m.PodChanged(uid) // unmounts; the next call removes the folder
	} else {
		err = errors.Join(err, m.removePodDir(uid, mounts))
		if m.own != nil {
			m.own.forget(uid)
		}
	}
	if err != nil {
		return fmt.Errorf("orphaned pod %s: %w", uid, err)
	}
	return nil
}

// removePodDir removes the folder of a pod without volumes.
func (m *Manager) removePodDir(uid types.UID, mounts []string) error {
	dir := filepath.Join(m.options.Root, "pods", string(uid))
	if below, err := mountsBelow(dir, mounts); err != nil || len(below) > 0 {
		return errors.Join(err, refuse("something is mounted at", below))
	}
	pods, err := os.OpenRoot(filepath.Join(m.options.Root, "pods"))
	if err != nil {
		return missing.Ignore(err)
	}
	defer pods.Close()
	r := remover{root: pods}
	if info, err := pods.Lstat(string(uid)); err != nil || !info.IsDir() {
		return missing.Ignore(err) // a file or link is not the folder of a pod
	} else if r.device, err = deviceOf(info); err != nil {
		return err
	}
	for _, top := range []struct {
		name  string
		depth int
		files fate
	}{
		{"volume-subpaths", 3, fateRemove}, // a bind mount target: an empty file or folder
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
		r.fail(tree.RemoveAll(pods, string(uid)))
	}
	return errors.Join(refuse("cannot remove", r.left), errors.Join(r.errs...))
}

// refuse returns an error with the text what and the paths, or nil without paths.
func refuse(what string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s", what, strings.Join(paths, ", "))
}

// mountsBelow returns the mount points at or below dir. Links in dir are resolved.
func mountsBelow(dir string, mounts []string) ([]string, error) {
	if len(mounts) == 0 {
		return nil, nil
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return nil, missing.Ignore(err)
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

// fate is the treatment of a file in removeEmpty.
type fate uint8

const (
	fateKeep fate = iota
	fateRemove
)

// remover removes empty folders below a root on one device, and never follows a link.
type remover struct {
	root   *os.Root
	device uint64
	left   []string // paths that must not be removed
	errs   []error
}

func (r *remover) fail(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.errs = append(r.errs, err)
	}
}

// enter returns the file info of name, or nil if name is missing or is on another device. A name on
// another device is recorded in left.
func (r *remover) enter(name string) fs.FileInfo {
	info, err := r.root.Lstat(name)
	if err != nil {
		r.fail(err)
		return nil
	}
	if !info.IsDir() {
		return info
	}
	if device, _ := deviceOf(info); device != r.device { // no error: that of the root was found
		r.left = append(r.left, name+" (another file system)")
		return nil
	}
	return info
}

// removeEmpty removes empty folders, down to depth below name, and empty files if files is
// fateRemove. Other paths are recorded in left.
func (r *remover) removeEmpty(name string, depth int, files fate) {
	info := r.enter(name)
	switch {
	case info == nil:
		return
	case !info.IsDir() && (files == fateKeep || !info.Mode().IsRegular() || info.Size() > 0):
		r.left = append(r.left, name)
		return
	case info.IsDir() && depth > 0:
		entries, err := tree.List(r.root, name)
		r.fail(err)
		for _, e := range entries {
			r.removeEmpty(filepath.Join(name, e.Name), depth-1, files)
		}
	}
	if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.left = append(r.left, name)
	}
}
