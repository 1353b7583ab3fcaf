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

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/tree"
)

const (
	dataFile = "vol_data.json"
	tempFile = "vol_data.json.tmp"
	dirMode  = 0o750
)

// The kubelet's words for volumeLifecycleMode.
const (
	lifecyclePersistent = "Persistent"
	lifecycleEphemeral  = "Ephemeral"
)

// data is vol_data.json, in the kubelet's format with one addition.
type data struct {
	SpecVolID     string `json:"specVolID,omitempty"`
	VolumeHandle  string `json:"volumeHandle"`
	DriverName    string `json:"driverName"`
	NodeName      string `json:"nodeName,omitempty"`
	LifecycleMode string `json:"volumeLifecycleMode,omitempty"`
	// Ready is the addition: the volume was set up to the end.
	Ready bool `json:"ready,omitempty"`
}

// write makes d durable in a folder below root, which is made if it is not there.
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
	if err := writeSynced(sub, tempFile, text); err != nil {
		return fmt.Errorf("%s: %w", dataFile, tree.Cause(err))
	}
	if err := sub.Rename(tempFile, dataFile); err != nil {
		return fmt.Errorf("%s: %w", dataFile, tree.Cause(err))
	}
	return syncDir(sub)
}

func writeSynced(dir *os.Root, name string, text []byte) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// below opens root, and returns the path of a folder relative to it.
func below(root, dir string) (*os.Root, string, error) {
	name, err := filepath.Rel(root, dir)
	if err != nil {
		return nil, "", err
	}
	r, err := os.OpenRoot(root)
	return r, name, err
}

// readData returns what was written to a folder; nil if nothing was.
func readData(root, dir string) (*data, error) {
	r, name, err := below(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := r.ReadFile(filepath.Join(name, dataFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dataFile, tree.Cause(err))
	}
	d := new(data)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w", dataFile, err)
	}
	if !isElement(d.DriverName) || d.VolumeHandle == "" {
		return nil, fmt.Errorf("%s names no driver or volume", dataFile)
	}
	return d, nil
}

// removeDir removes a folder with the files of this package in it, and the empty folders or links that extra names.
// Anything else in it makes it fail: nothing that may be a user's is removed.
func removeDir(root, dir string, extra ...string) error {
	r, name, err := below(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	// The data last: as long as it is there, so is the way back.
	for _, n := range append(extra, tempFile, dataFile, "") {
		if err := r.Remove(filepath.Join(name, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", filepath.Join(name, n), tree.Cause(err))
		}
	}
	return nil
}

// removeData removes the data of a block volume from its StateDir.
func removeData(dir string) error {
	return errors.Join(removeTarget(filepath.Join(dir, tempFile)), removeTarget(filepath.Join(dir, dataFile)))
}

// removeTarget removes a file, a link or an empty folder, if it is there.
func removeTarget(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, tree.Cause(err))
	}
	return nil
}

// Reconstruct returns the driver and handle of a volume that somebody set up before, from its vol_data.json.
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
