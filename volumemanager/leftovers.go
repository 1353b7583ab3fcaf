// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/sorted"
)

// LeftoverKind is the kind of a Leftover.
type LeftoverKind uint8

// The kinds of leftovers.
const (
	// LeftoverMount is a mount point.
	LeftoverMount LeftoverKind = iota
	// LeftoverFolder is the folder of a pod or volume without a mount in it.
	LeftoverFolder
	// LeftoverRecord is the record of a staged volume, or a file or folder at the path of a record.
	LeftoverRecord
)

// String returns the name of the kind, for example "mount".
func (k LeftoverKind) String() string {
	switch k {
	case LeftoverMount:
		return "mount"
	case LeftoverFolder:
		return "folder"
	case LeftoverRecord:
		return "record"
	}
	return fmt.Sprintf("LeftoverKind(%d)", uint8(k))
}

// MarshalText returns String.
func (k LeftoverKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Leftover is a mount, folder or record below Options.Root that no pod needs any more.
type Leftover struct {
	Kind LeftoverKind
	// Path is absolute. The path of a mount is spelled as in the mount table, without links.
	Path string
	// PodUID is the pod that owns the folder; empty outside of the folders of pods.
	PodUID types.UID
	// Why is the reason why the leftover still exists.
	Why string
}

// stagingDir is the folder below the root for staged volumes, as in the kubelet's layout.
const stagingDir = "plugins"

// Leftovers compares the mount table and the disk below Options.Root with the expected pods and
// volumes. It returns, sorted by path:
//
//   - for each pod that is gone (keep is false, and Pods permits the removal) the mounts in its
//     folder, or the folder if nothing is mounted there;
//   - mounts below plugins/ that belong to no staged volume;
//   - records of staged volumes that cannot be read, or whose volume is not known.
//
// A volume in the middle of its teardown is reported too. So call Leftovers twice, after pods have
// had time to end. Leftovers changes nothing and accesses no mount, so that it cannot hang on a
// mount. Without Options.Mounts it finds no mounts. The error joins the read failures; the
// leftovers found are returned beside the error.
func (m *Manager) Leftovers(ctx context.Context, keep func(types.UID) bool) ([]Leftover, error) {
	var mounts []string
	var errs []error
	if m.options.Mounts != nil {
		points, err := m.options.Mounts.MountPoints()
		if err != nil {
			return nil, fmt.Errorf("read the mount table: %w", err)
		}
		mounts = points
	}
	uids, err := m.records.podsOnDisk()
	errs = append(errs, err)
	var found []Leftover
	for _, uid := range uids {
		if ctx.Err() != nil {
			return found, errors.Join(append(errs, context.Cause(ctx))...)
		}
		if keep(uid) || !m.options.Pods.ShouldPodRuntimeBeRemoved(uid) {
			continue
		}
		left, err := m.leftoversOf(uid, mounts)
		found, errs = append(found, left...), append(errs, err)
	}
	staged, err := m.stagedLeftovers(mounts)
	found, errs = append(found, staged...), append(errs, err)
	sorted.By(found, func(a, b Leftover) int { return strings.Compare(a.Path, b.Path) })
	return found, errors.Join(errs...)
}

// leftoversOf returns the leftovers of a pod that is gone and has a folder.
func (m *Manager) leftoversOf(uid types.UID, mounts []string) ([]Leftover, error) {
	dir := filepath.Join(m.options.Root, podsDir, string(uid))
	below, err := mountsBelow(dir, mounts)
	if err != nil {
		return nil, err
	}
	why := "the pod is gone, and no volume of it is known"
	m.mu.Lock()
	m.each(uid, func(v *volume, r *row) {
		why = "the pod is gone, and its volume " + r.place.Inner + " is not torn down yet"
		if r.failure.err != nil {
			why += ": " + r.failure.err.Error()
		}
	})
	m.mu.Unlock()
	if len(below) == 0 {
		return []Leftover{{Kind: LeftoverFolder, Path: dir, PodUID: uid, Why: why}}, nil
	}
	var found []Leftover
	for _, path := range below {
		found = append(found, Leftover{Kind: LeftoverMount, Path: path, PodUID: uid, Why: why})
	}
	return found, nil
}

// stagedLeftovers returns the mounts below plugins/ and the device records that belong to no staged
// volume.
func (m *Manager) stagedLeftovers(mounts []string) ([]Leftover, error) {
	dirs, records := map[string]bool{}, map[string]bool{}
	m.mu.Lock()
	for name, v := range m.mu.volumes {
		if v.staged {
			dirs[v.deviceDir] = true
			records[filepath.Base(deviceRecordName(name))] = true
		}
	}
	m.mu.Unlock()
	var found []Leftover
	top := filepath.Join(m.options.Root, stagingDir)
	below, err := mountsBelow(top, mounts)
	errs := []error{err}
	for dir := range dirs {
		known, err := mountsBelow(dir, mounts)
		errs = append(errs, err)
		below = slices.DeleteFunc(below, func(path string) bool { return slices.Contains(known, path) })
	}
	for _, path := range below {
		found = append(found, Leftover{Kind: LeftoverMount, Path: path, Why: "no staged volume is known that would be mounted there"})
	}
	names, err := m.records.list(deviceRecords)
	errs = append(errs, err)
	for _, name := range names {
		if records[name] {
			continue
		}
		found = append(found, Leftover{
			Kind: LeftoverRecord, Path: filepath.Join(m.options.Root, deviceRecords, name), Why: m.records.whyUnknown(name),
		})
	}
	return found, errors.Join(errs...)
}

// whyUnknown returns the reason why the volume of a device record is not known.
func (f recordFiles) whyUnknown(name string) string {
	data, err := f.read(filepath.Join(deviceRecords, name))
	if err == nil {
		_, err = parseDeviceRecord(data)
	}
	if err != nil {
		return "the record cannot be read: " + err.Error()
	}
	return "no staged volume of that record is known"
}
