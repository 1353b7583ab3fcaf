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

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/missing"
	"github.com/keelson-dev/keelson/internal/topdir"
)

// podsDir and deviceRecords are the folders of the pods and of the DeviceRecords, below the root.
const (
	podsDir       = "pods"
	deviceRecords = "volumemanager/devices"
)

// recordFiles keeps records below a root. Its methods may run concurrently for different names, but
// not for the same name.
type recordFiles struct {
	root string
	// marked is done once mark has run on the folder of all pods.
	marked *sync.Once
}

// open returns the root, and creates it if necessary. An os.Root confines all paths to it.
func (f recordFiles) open() (*os.Root, error) {
	if err := os.MkdirAll(f.root, 0o750); err != nil {
		return nil, err
	}
	return os.OpenRoot(f.root)
}

// openPods returns the folder of all pods, and creates it if necessary.
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

// mark asks the file system to spread the folders of pods over the disk. A failure does no harm.
func mark(pods *os.Root) {
	dir, err := pods.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	_ = topdir.Mark(dir)
}

// openOrMake opens a folder in root, and creates it if necessary.
func openOrMake(root *os.Root, name string) (*os.Root, error) {
	if err := root.Mkdir(name, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return root.OpenRoot(name)
}

// writeMount makes sure that the record of the SetUp o is on disk. existed reports whether there was a record
// before: an earlier agent has set the volume up, or has tried to.
func (f recordFiles) writeMount(o *operation) (existed bool, err error) {
	record := MountRecord{
		Version: recordVersion, PodUID: o.place.PodUID, Plugin: o.place.Plugin, Inner: o.place.Inner,
		Outer: o.outer, Block: o.spec.Block(), Spec: o.spec, DevicePath: o.device.Path, DeviceDir: o.device.Dir,
		Namespace: o.pod.Namespace, Pod: o.pod.Name,
	}
	data, err := json.Marshal(record)
	if err != nil {
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
	_, shared := o.plugin.(Shared)
	return write(pod, o.place.recordName(), data, shared)
}

// removeMount removes the record, and StateDir if it is empty.
func (f recordFiles) removeMount(p Place) error {
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return missing.Ignore(err)
	}
	defer root.Close()
	pod, err := root.OpenRoot(f.relative(p.PodDir()))
	if err != nil {
		return missing.Ignore(err)
	}
	defer pod.Close()
	for _, name := range []string{p.recordName() + temporary, p.recordName()} {
		if err := atomicfile.Remove(pod, name); err != nil {
			return err
		}
	}
	if state, err := filepath.Rel(p.PodDir(), p.StateDir()); err == nil {
		_ = pod.Remove(state) // CleanupOrphan finds files left there by the plugin
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

// remove removes a record if it exists.
func (f recordFiles) remove(name string) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	return atomicfile.Remove(root, name)
}

func deviceRecordName(name v1.UniqueVolumeName) string {
	return filepath.Join(deviceRecords, fmt.Sprintf("%x.json", sha256.Sum256([]byte(name))))
}

// relative returns path relative to the root.
func (f recordFiles) relative(path string) string {
	rel, err := filepath.Rel(f.root, path)
	if err != nil {
		return path // absolute: os.Root refuses it
	}
	return rel
}

// write makes data the content of a record, in an existing folder. A power cut may lose or truncate a
// new record: then nothing is mounted, and the folder of the volume is enough to find the volume. Only
// the content for a plugin that has to undo steps elsewhere, a Shared plugin, is synced. A crash
// during write may leave a truncated record; nothing is mounted at this time. existed reports
// whether there was a record, or another file or folder at its path, which is replaced as a whole.
func write(dir *os.Root, name string, data []byte, synced bool) (existed bool, err error) {
	if err = atomicfile.Create(dir, name, data, synced); errors.Is(err, fs.ErrExist) {
		return true, replace(dir, name, data)
	}
	return false, err
}

// replace makes data the content of a record, unless the content is the same. After a crash of the
// agent or of the node, the record is the old or the new version. A folder at the path is removed:
// only records have such names.
func replace(dir *os.Root, name string, data []byte) error {
	if old, _ := atomicfile.Read(dir, name, maxRecord); bytes.Equal(old, data) {
		return nil
	}
	if err := atomicfile.Clear(dir, name); err != nil {
		return err
	}
	return atomicfile.Write(dir, name, data)
}
