// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/missing"
	"github.com/keelson-dev/keelson/internal/sorted"
)

// Reconstruct finds the volumes that an earlier agent has set up: from the mount records, then from
// the pods' folders for volumes without a record. Reconstruct asks no cluster, and accesses no
// mount, so that it cannot hang on a mount. A volume found is uncertain until it is set up again
// for its pod, or torn down because the pod is gone.
//
// Run and Reconcile call Reconstruct first. After an error they do not repeat it, but
// CleanupOrphan reads the pod's folder again. The error joins the read failures; the other volumes were
// found.
func (m *Manager) Reconstruct(ctx context.Context) error {
	select {
	case m.rebuild <- struct{}{}:
		defer func() { <-m.rebuild }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m.mu.Lock()
	done := m.mu.rebuilt
	m.mu.Unlock()
	if done {
		return nil
	}
	errs := []error{m.findDevices()}
	uids, err := m.records.podsOnDisk()
	errs = append(errs, err)
	for _, uid := range uids {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, m.findPod(uid))
	}
	m.mu.Lock()
	m.mu.rebuilt = true
	for uid := range m.mu.pods {
		m.wakeWaiters(uid)
	}
	m.mu.Unlock()
	return errors.Join(errs...)
}

// findDevices adds the volumes with a device record.
func (m *Manager) findDevices() error {
	all, err := m.records.devices()
	m.mu.Lock()
	defer m.unlock()
	for _, record := range all {
		plugin, ok := pluginNamed(m.options.Plugins, record.Plugin)
		if !ok {
			err = errors.Join(err, fmt.Errorf("staged volume %s: there is no plugin %q", record.Volume, record.Plugin))
			continue
		}
		v := m.volume(v1.UniqueVolumeName(record.Volume), plugin, record.Spec)
		v.device, v.found = StateUncertain, true // no operation has begun
		v.staged, v.deviceDir, v.devicePath = true, record.DeviceDir, record.DevicePath
	}
	return err
}

// findPod adds the volumes of a pod from the disk. Folders of unknown plugins become leftovers.
func (m *Manager) findPod(uid types.UID) error {
	places, err := m.records.placesOf(uid)
	errs := []error{err}
	var leftovers []Leftover
	for _, p := range places {
		plugin, ok := pluginNamed(m.options.Plugins, p.Plugin)
		if !ok {
			leftovers = append(leftovers, Leftover{Kind: LeftoverFolder, Path: p.Dir(), PodUID: uid, Why: fmt.Sprintf("there is no plugin %q", p.Plugin)})
			continue
		}
		record, err := m.records.readMount(p)
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist):
			record = m.guess(plugin, p)
		default:
			errs = append(errs, fmt.Errorf("volume %s of pod %s: %w", p.Inner, uid, err))
			record = m.guess(plugin, p)
		}
		m.takeIn(plugin, p, record)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.leftovers = slices.DeleteFunc(m.mu.leftovers, func(l Leftover) bool { return l.PodUID == uid })
	m.mu.leftovers = append(m.mu.leftovers, leftovers...)
	return errors.Join(errs...)
}

// guess returns a record for a volume without a readable record: from the device record of a staged
// volume with the same folder name, or from the plugin.
func (m *Manager) guess(plugin Plugin, p Place) MountRecord {
	var record MountRecord
	if v, ok := m.stagedVolume(p); ok {
		record.Spec, record.DeviceDir, record.DevicePath = v.spec, v.deviceDir, v.devicePath
		return record
	}
	r, ok := plugin.(Reconstructor)
	if !ok {
		return record
	}
	spec, err := r.Reconstruct(p)
	if err == nil && spec.InnerName() == p.Inner {
		record.Spec = spec
		record.DeviceDir, _ = deviceDir(plugin, p.Root, spec)
	}
	return record
}

// stagedVolume returns the staged volume with the same plugin and folder name as p.
func (m *Manager) stagedVolume(p Place) (volume, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.mu.volumes {
		if v.staged && v.plugin.Name() == p.Plugin && v.spec.PV != nil && v.spec.InnerName() == p.Inner {
			return *v, true
		}
	}
	return volume{}, false
}

// takeIn adds a reconstructed volume as uncertain, unless the pod already has a row for p.
func (m *Manager) takeIn(plugin Plugin, p Place, record MountRecord) {
	name := privateName(p.Plugin, p.PodUID, p.Inner)
	if record.Spec.InnerName() != "" {
		if known, err := UniqueVolumeName(plugin, p.PodUID, record.Spec); err == nil {
			name = known
		}
	}
	m.mu.Lock()
	defer m.unlock()
	here := false
	m.each(p.PodUID, func(_ *volume, r *row) {
		if r.place != p {
			return
		}
		here = true
		if !m.mu.rebuilt { // no operation has begun
			r.state, r.found = StateUncertain, true
		}
	})
	if here {
		return
	}
	if _, other := m.row(name, p.PodUID); other != nil { // the plugin now calls two volumes of the pod the same
		name, record.DeviceDir = privateName(p.Plugin, p.PodUID, p.Inner), ""
	}
	v := m.volume(name, plugin, record.Spec)
	if record.DeviceDir != "" && !v.staged {
		v.staged, v.deviceDir, v.devicePath = true, record.DeviceDir, record.DevicePath
		v.device, v.found = StateUncertain, true
	}
	m.link(v, &row{place: p, spec: record.Spec, outer: record.Outer, state: StateUncertain, found: true})
}

// podsOnDisk returns the UIDs of pods with a folder.
func (f recordFiles) podsOnDisk() ([]types.UID, error) {
	names, err := f.list(podsDir)
	var uids []types.UID
	for _, name := range names {
		uids = append(uids, types.UID(name))
	}
	return uids, err
}

// placesOf returns every volume of the pod that has a record or a folder, sorted. Only the names of
// volume folders are read, not their content.
func (f recordFiles) placesOf(uid types.UID) ([]Place, error) {
	found := map[Place]bool{}
	var errs []error
	pod := filepath.Join(podsDir, string(uid))
	for _, top := range []string{"volumes", "volumeDevices"} {
		dir := filepath.Join(pod, top)
		plugins, err := f.list(dir)
		errs = append(errs, err)
		for _, plugin := range plugins {
			inners, err := f.list(filepath.Join(dir, plugin))
			errs = append(errs, err)
			for _, inner := range inners {
				p := Place{Root: f.root, PodUID: uid, Plugin: UnescapePluginName(plugin), Inner: inner}
				if p.Check() == nil {
					found[p] = true
				}
			}
		}
	}
	names, err := f.list(pod)
	errs = append(errs, err)
	for _, name := range names {
		if !strings.HasSuffix(name, recordSuffix) {
			continue
		}
		p, err := f.placeOf(uid, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("mount record %s of pod %s: %w", name, uid, err))
			continue
		}
		found[p] = true
	}
	return sorted.Collect(maps.Keys(found), func(a, b Place) int {
		return strings.Compare(a.Dir(), b.Dir())
	}), errors.Join(errs...)
}

// placeOf returns the volume of a record file.
func (f recordFiles) placeOf(uid types.UID, name string) (Place, error) {
	if p, ok := placeOfRecord(f.root, uid, name); ok {
		return p, nil
	}
	data, err := f.read(filepath.Join(podsDir, string(uid), name))
	if err != nil {
		return Place{}, err
	}
	var r MountRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return Place{}, err
	}
	p := Place{Root: f.root, PodUID: uid, Plugin: r.Plugin, Inner: r.Inner}
	if err := p.Check(); err != nil {
		return Place{}, err
	}
	if p.recordName() != name {
		return Place{}, errors.New("is that of another volume")
	}
	return p, nil
}

// list returns the sorted names in a folder below the root. A missing folder, or a file on the
// path, has no names.
func (f recordFiles) list(dir string) (names []string, err error) {
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return nil, missing.Ignore(err)
	}
	defer root.Close()
	file, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait for the writer of a pipe
	if err == nil {
		defer file.Close()
		names, err = file.Readdirnames(0)
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	slices.Sort(names)
	return names, missing.Ignore(err)
}

// maxRecord is the largest size of a record that read accepts, in bytes.
const maxRecord = 4 << 20

// read reads a record of at most maxRecord bytes. A pipe at the path does not block the read.
func (f recordFiles) read(name string) ([]byte, error) {
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return atomicfile.Read(root, name, maxRecord)
}

// readMount reads the record of the volume at p.
func (f recordFiles) readMount(p Place) (MountRecord, error) {
	data, err := f.read(f.relative(p.Record()))
	if err != nil {
		return MountRecord{}, err
	}
	return parseRecord(p, data)
}

// devices reads the records of all staged volumes. Temporary files of a crash are removed: their
// volumes were not staged yet, and may never be requested again. No other goroutine writes device
// records meanwhile.
func (f recordFiles) devices() ([]DeviceRecord, error) {
	names, err := f.list(deviceRecords)
	errs := []error{err}
	var all []DeviceRecord
	for _, name := range names {
		if strings.HasSuffix(name, temporary) {
			errs = append(errs, f.remove(filepath.Join(deviceRecords, name)))
			continue
		}
		data, err := f.read(filepath.Join(deviceRecords, name))
		if err == nil {
			var record DeviceRecord
			if record, err = parseDeviceRecord(data); err == nil {
				all = append(all, record)
				continue
			}
		}
		errs = append(errs, fmt.Errorf("device record %s: %w", name, err))
	}
	return all, errors.Join(errs...)
}
