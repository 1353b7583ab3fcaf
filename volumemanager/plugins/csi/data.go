// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
)

const (
	dataFile = "vol_data.json"
	tempFile = dataFile + atomicfile.Temporary
	// maxData is the largest accepted size of vol_data.json, in bytes.
	maxData = 64 << 10
	dirMode = 0o750
)

// The kubelet's values of volumeLifecycleMode.
const (
	lifecyclePersistent = "Persistent"
	lifecycleEphemeral  = "Ephemeral"
)

// data is the content of vol_data.json, in the kubelet's format with an additional field.
type data struct {
	SpecVolID     string `json:"specVolID,omitempty"`
	VolumeHandle  string `json:"volumeHandle"`
	DriverName    string `json:"driverName"`
	NodeName      string `json:"nodeName,omitempty"`
	LifecycleMode string `json:"volumeLifecycleMode,omitempty"`
	// Ready is the additional field: the set-up of the volume is complete.
	Ready bool `json:"ready,omitempty"`
}

// write makes d durable in a folder below root, and creates the folder if necessary.
func (d data) write(root, dir string) error {
	r, name, err := below(root, dir)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.MkdirAll(name, dirMode); err != nil {
		return tree.Cause(err)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	sub, err := r.OpenRoot(name)
	if err != nil {
		return tree.Cause(err)
	}
	defer sub.Close()
	if err := atomicfile.Clear(sub, dataFile); err != nil {
		return fmt.Errorf("%s: %w", dataFile, tree.Cause(err))
	}
	if err := atomicfile.Write(sub, dataFile, text); err != nil {
		return fmt.Errorf("%s: %w", dataFile, tree.Cause(err))
	}
	return nil
}

// below opens root, and returns the path of a folder relative to root.
func below(root, dir string) (*os.Root, string, error) {
	name, err := filepath.Rel(root, dir)
	if err != nil {
		return nil, "", err
	}
	r, err := os.OpenRoot(root)
	return r, name, err
}

// readData returns the data in a folder; nil if there is none.
func readData(root, dir string) (*data, error) {
	r, name, err := below(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := atomicfile.Read(r, filepath.Join(name, dataFile), maxData)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, atomicfile.ErrTooLarge), errors.Is(err, atomicfile.ErrNotRegular):
		return nil, fmt.Errorf("%w: %w", errDamaged, tree.Cause(err))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", dataFile, tree.Cause(err))
	}
	d := new(data)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if !isElement(d.DriverName) || d.VolumeHandle == "" {
		return nil, fmt.Errorf("%w: it names no driver or volume", errDamaged)
	}
	return d, nil
}

// errDamaged reports a vol_data.json that write has not written.
var errDamaged = errors.New(dataFile + " is damaged")

// dataOf is readData for a volume with a known spec. If a power cut or another program has damaged
// the data, dataOf returns data from the spec: the volume may have been partly set up.
func dataOf(root, dir string, s volumemanager.Spec, at volumemanager.Place) (*data, error) {
	d, err := readData(root, dir)
	if !errors.Is(err, errDamaged) {
		return d, err
	}
	v, specErr := of(s, at, "")
	if specErr != nil {
		return nil, err
	}
	return &data{DriverName: v.driver, VolumeHandle: v.handle}, nil
}

// removeDir removes a folder with this package's files in it, and the empty folders or links in
// extra. Any other content is an error, because it may be a user's.
func removeDir(root, dir string, extra ...string) error {
	r, name, err := below(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	// The data comes last, because it is needed to undo the set-up.
	for _, n := range append(extra, tempFile, dataFile, "") {
		remove := r.Remove
		if n == tempFile || n == dataFile {
			remove = func(path string) error { return atomicfile.Remove(r, path) }
		}
		if err := remove(filepath.Join(name, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", filepath.Join(name, n), tree.Cause(err))
		}
	}
	return nil
}

// removeData removes the data of a block volume from its StateDir.
func removeData(dir string) error {
	r, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	return errors.Join(atomicfile.Remove(r, tempFile), atomicfile.Remove(r, dataFile))
}

// removeTarget removes a file, a link or an empty folder, if present.
func removeTarget(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, tree.Cause(err))
	}
	return nil
}

// Reconstruct returns the driver and handle of a volume from its vol_data.json.
func (*Plugin) Reconstruct(p volumemanager.Place) (volumemanager.Spec, error) {
	if err := p.Check(); err != nil {
		return volumemanager.Spec{}, err
	}
	d, err := readData(p.Root, p.Dir())
	if err != nil {
		return volumemanager.Spec{}, err
	}
	if d == nil {
		return volumemanager.Spec{}, fmt.Errorf("volume %q: no %s", p.Inner, dataFile)
	}
	if d.LifecycleMode == lifecycleEphemeral {
		return volumemanager.Spec{Volume: &v1.Volume{
			Name: p.Inner, VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: d.DriverName}},
		}}, nil
	}
	pv := &v1.PersistentVolume{}
	pv.Name = p.Inner
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: d.DriverName, VolumeHandle: d.VolumeHandle}
	return volumemanager.Spec{PV: pv}, nil
}
