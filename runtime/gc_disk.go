// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/internal/missing"
	"github.com/keelson-dev/keelson/internal/tree"
)

// goneLogs is the prefix of a log folder that is being removed. No pod's folder has the prefix,
// because a namespace does not begin with a dot.
const goneLogs = ".gone-"

// gcDisk has the two folders on disk that garbage collection cleans up. Files outside these folders
// are never touched, also not through links.
type gcDisk struct {
	logs, links *os.Root // nil: not requested, or missing
}

func openGCDisk(policy GCPolicy) (*gcDisk, error) {
	var d gcDisk
	var logsErr, linksErr error
	d.logs, logsErr = openIfThere(policy.LogRoot)
	d.links, linksErr = openIfThere(policy.LinkDir)
	return &d, errors.Join(logsErr, linksErr)
}

func openIfThere(dir string) (*os.Root, error) {
	if dir == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return root, err
}

func (d *gcDisk) close() {
	for _, root := range []*os.Root{d.logs, d.links} {
		if root != nil {
			_ = root.Close() // only used for reading
		}
	}
}

// entries lists a folder below root in sorted order. A missing folder is empty.
func entries(root *os.Root, dir string) ([]tree.Child, error) {
	list, err := tree.List(root, dir)
	return list, missing.Ignore(err)
}

// folders lists the pods' log folders, and completes removals that were interrupted before. Links
// to folders are not followed.
func (d *gcDisk) folders() ([]logFolder, error) {
	if d.logs == nil {
		return nil, nil
	}
	list, err := entries(d.logs, ".")
	errs := []error{err}
	var out []logFolder
	for _, e := range list {
		if !e.Type.IsDir() {
			continue
		}
		if strings.HasPrefix(e.Name, goneLogs) {
			errs = append(errs, tree.RemoveAll(d.logs, e.Name))
			continue
		}
		uid, ok := podOfLogFolder(e.Name)
		if !ok {
			continue
		}
		folder := logFolder{Name: e.Name, UID: uid}
		folder.Containers, err = d.files(e.Name)
		errs = append(errs, err)
		out = append(out, folder)
	}
	return out, errors.Join(errs...)
}

// files lists the log files in the folder of a pod.
func (d *gcDisk) files(folder string) ([]logFiles, error) {
	containers, err := entries(d.logs, folder)
	errs := []error{err}
	var out []logFiles
	for _, c := range containers {
		if !c.Type.IsDir() {
			continue
		}
		list, err := entries(d.logs, path.Join(folder, c.Name))
		errs = append(errs, err)
		files := logFiles{Container: c.Name}
		for _, f := range list {
			if n, ok := restartCountOfLog(f.Name); ok && !f.Type.IsDir() {
				files.RestartCounts = append(files.RestartCounts, n)
			}
		}
		slices.Sort(files.RestartCounts)
		files.RestartCounts = slices.Compact(files.RestartCounts)
		out = append(out, files)
	}
	return out, errors.Join(errs...)
}

// removeFolder removes a pod's log folder. The folder is first renamed, so that a pod with the same
// name finds no folder, and then deleted.
func (d *gcDisk) removeFolder(name string) error {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	tmp := fmt.Sprintf("%s%016x", goneLogs, hash.Sum64())
	if err := tree.RemoveAll(d.logs, tmp); err != nil {
		return err
	}
	if err := d.logs.Rename(name, tmp); err != nil {
		return missing.Ignore(err)
	}
	return tree.RemoveAll(d.logs, tmp)
}

// removeFiles removes a container's log file and its rotated files.
func (d *gcDisk) removeFiles(dir, file string) error {
	list, err := entries(d.logs, path.Clean(dir))
	errs := []error{err}
	for _, e := range list {
		if name := e.Name; !e.Type.IsDir() && (name == file || strings.HasPrefix(name, file+".")) {
			errs = append(errs, missing.Ignore(d.logs.Remove(path.Join(dir, name))))
		}
	}
	return errors.Join(errs...)
}

// deadLinks lists the links to missing log files.
func (d *gcDisk) deadLinks() ([]logLink, error) {
	if d.links == nil {
		return nil, nil
	}
	list, err := entries(d.links, ".")
	var out []logLink
	for _, e := range list {
		id, ok := containerOfLink(e.Name)
		if !ok {
			continue
		}
		// Links lead out of the folder. Only the existence of their target is checked.
		if _, err := os.Stat(filepath.Join(d.links.Name(), e.Name)); errors.Is(err, fs.ErrNotExist) {
			out = append(out, logLink{Name: e.Name, ContainerID: id})
		}
	}
	return out, err
}

// containerOfLink parses <pod>_<namespace>_<container>-<id>.log.
func containerOfLink(name string) (id string, ok bool) {
	name, ok = strings.CutSuffix(name, ".log")
	at := strings.LastIndexByte(name, '-') + 1
	if id = name[at:]; !ok || id == "" || strings.Count(name[:at], "_") < 2 {
		return "", false
	}
	return id, true
}

func (d *gcDisk) removeLink(name string) error { return missing.Ignore(d.links.Remove(name)) }
