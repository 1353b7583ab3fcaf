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
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/topdir"
)

// podsDir and deviceRecords are the folders of all pods, and of DeviceRecords, below
// the root.
const (
	podsDir       = "pods"
	deviceRecords = "volumemanager/devices"
)

// recordFiles keeps records below a root. Its methods are called for different
// names at once, for one name one after the other.
type recordFiles struct {
	root string
	// marked is done once the folder of all pods has its mark.
	marked *sync.Once
}

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

// openPods returns the folder of all pods, made if need be.
func (f recordFiles) openPods() (*os.Root, error) {
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	pods, err := openOrMake(root, podsDir)
	if err == nil {
		f.marked.Do(func() { mark(pods) })
	}
	return pods, err
}

// mark makes a file system put the folders of pods where there is room, not all
// into one corner. It is no harm if it does not.
func mark(pods *os.Root) {
	dir, err := pods.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	_ = topdir.Mark(dir)
}

// openOrMake opens a folder in root.
func openOrMake(root *os.Root, name string) (*os.Root, error) {
	dir, err := root.OpenRoot(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := root.Mkdir(name, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return root.OpenRoot(name)
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
	if err := o.place.Check(); err != nil {
		return false, err
	}
	pods, err := f.openPods()
	if err != nil {
		return false, err
	}
	defer pods.Close()
	pod, err := openOrMake(pods, string(o.place.PodUID))
	if err != nil {
		return false, err
	}
	defer pod.Close()
	return write(pod, o.place.recordName(), data)
}

// removeMount removes the record, and StateDir if there is nothing in it.
func (f recordFiles) removeMount(p Place) error {
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return ignoreAbsence(err)
	}
	defer root.Close()
	pod, err := root.OpenRoot(f.relative(p.PodDir()))
	if err != nil {
		return ignoreAbsence(err)
	}
	defer pod.Close()
	for _, name := range []string{p.recordName() + temporary, p.recordName()} {
		if err := pod.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if state, err := filepath.Rel(p.PodDir(), p.StateDir()); err == nil {
		_ = pod.Remove(state) // what the plugin left there is found by CleanupOrphans
	}
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
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(deviceRecords, 0o750); err != nil {
		return err
	}
	return replace(root, deviceRecordName(o.volume), data)
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

// write makes data what is in a file, in a folder that is there. If there is no such
// file, it is complete once write has returned; after a crash before that it may be
// cut short: nothing was done yet that it could tell of. Else see replace.
func write(dir *os.Root, name string, data []byte) (existed bool, err error) {
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return true, replace(dir, name, data)
	}
	if err != nil {
		return false, err // there may be one: it is too early to remove it
	}
	if err := fill(file, data); err != nil {
		_ = dir.Remove(name)
		return false, err
	}
	return false, nil
}

// replace makes data what is in a file, unless it is already. After a crash of the
// agent or of the node the file is the old or the new one. The folder is not synced,
// so that after a power cut one that was not there before may also be missing.
func replace(dir *os.Root, name string, data []byte) error {
	if old, err := dir.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	file, err := dir.OpenFile(name+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := fill(file, data); err != nil {
		_ = dir.Remove(name + temporary)
		return err
	}
	return dir.Rename(name+temporary, name)
}

// fill makes data what is in a new file, and closes it.
func fill(file *os.File, data []byte) error {
	_, err := file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}
