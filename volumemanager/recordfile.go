// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// deviceRecords is the folder of DeviceRecords below the root.
const deviceRecords = "volumemanager/devices"

// recordFiles keeps records below a root. Its methods are called for different
// names at once, for one name one after the other.
type recordFiles struct{ root string }

// open returns the root, made if need be, so that no path leads out of it.
func (f recordFiles) open() (*os.Root, error) {
	root, err := os.OpenRoot(f.root)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(f.root, 0o750); err != nil {
			return nil, err
		}
		return os.OpenRoot(f.root)
	}
	return root, err
}

// writeMount makes sure that the record is on disk. existed reports whether there
// was one before: then an agent has set the volume up, or tried to.
func (f recordFiles) writeMount(o *operation) (existed bool, err error) {
	record := MountRecord{
		Version: recordVersion, PodUID: o.place.PodUID, Plugin: o.place.Plugin, Inner: o.place.Inner,
		Outer: o.outer, Block: o.spec.Block(), Spec: o.spec, DevicePath: o.device.Path, DeviceDir: o.device.Dir,
	}
	if o.pod != nil {
		record.Namespace, record.Pod = o.pod.Namespace, o.pod.Name
	}
	data, err := json.Marshal(record)
	if err != nil {
		return false, err
	}
	return f.write(f.relative(filepath.Join(o.place.StateDir(), RecordName)), data)
}

// removeMount removes the record, and its folder if it has nothing else in it.
func (f recordFiles) removeMount(p Place) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	dir := f.relative(p.StateDir())
	for _, name := range []string{RecordName + temporary, RecordName} {
		if err := root.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	_ = root.Remove(dir) // what the plugin left there is found by CleanupOrphans
	return nil
}

// writeDevice makes sure that the record of a staged volume is on disk.
func (f recordFiles) writeDevice(o *operation) error {
	data, err := json.Marshal(DeviceRecord{
		Version: recordVersion, Volume: string(o.volume), Plugin: o.plugin.Name(), Spec: o.device.Spec,
		DevicePath: o.device.Path, DeviceDir: o.device.Dir,
	})
	if err != nil {
		return err
	}
	_, err = f.write(deviceRecordName(o.volume), data)
	return err
}

func (f recordFiles) removeDevice(name v1.UniqueVolumeName) error {
	return f.remove(deviceRecordName(name))
}

// remove removes a file, if it is there.
func (f recordFiles) remove(name string) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	return ignoreAbsence(root.Remove(name))
}

func deviceRecordName(name v1.UniqueVolumeName) string {
	return filepath.Join(deviceRecords, fmt.Sprintf("%x.json", sha256.Sum256([]byte(name))))
}

// relative returns the path below the root.
func (f recordFiles) relative(path string) string {
	rel, err := filepath.Rel(f.root, path)
	if err != nil {
		return path // absolute: os.Root refuses it
	}
	return rel
}

// temporary ends the names of files that are not complete yet.
const temporary = ".tmp"

// write replaces the file by data unless that is what it has. After a crash of the
// agent or of the node the file is the old or the new one; the folder is not
// synced, so that after a power cut the file may also be missing.
func (f recordFiles) write(name string, data []byte) (existed bool, err error) {
	root, err := f.open()
	if err != nil {
		return false, err
	}
	defer root.Close()
	old, err := root.ReadFile(name)
	existed = err == nil
	if existed && bytes.Equal(old, data) {
		return true, nil
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return existed, err
	}
	if err := writeSynced(root, name+temporary, data); err != nil {
		_ = root.Remove(name + temporary)
		return existed, err
	}
	return existed, root.Rename(name+temporary, name)
}

func writeSynced(root *os.Root, name string, data []byte) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}
