// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
)

// checkRecords checks that each volume with anything on disk has a complete record, with the data
// for its teardown.
func (w *world) checkRecords(mounted []string) error {
	var errs []error
	folders, err := filepath.Glob(filepath.Join(w.Root, "pods/*/volumes/*/*"))
	errs = append(errs, err)
	for _, folder := range folders {
		pod, rest, _ := strings.Cut(folder, "/volumes/")
		at := volumemanager.Place{
			Root: w.Root, PodUID: types.UID(filepath.Base(pod)),
			Plugin: volumemanager.UnescapePluginName(filepath.Dir(rest)), Inner: filepath.Base(rest),
		}
		errs = append(errs, checkRecord(at.Record(), filepath.Base(pod)))
	}
	parts, err := filepath.Glob(filepath.Join(w.Root, "pods/*/volume-subpaths/*/*/*"))
	errs = append(errs, err)
	for _, part := range parts {
		pod, rest, _ := strings.Cut(part, "/volume-subpaths/")
		inner, _, _ := strings.Cut(rest, "/")
		records, err := filepath.Glob(filepath.Join(pod, "*~"+inner+".mount.json"))
		if len(records) == 0 {
			errs = append(errs, err, fmt.Errorf("%s is there without a record of its volume", part))
		}
	}
	for _, dir := range mountsAtOrBelow(mounted, filepath.Join(w.Root, "plugins")) {
		errs = append(errs, w.checkDeviceRecord(dir))
	}
	return errors.Join(errs...)
}

func checkRecord(name, uid string) error {
	var record volumemanager.MountRecord
	if err := readRecord(name, &record); err != nil {
		return err
	}
	if string(record.PodUID) != uid || record.Spec.InnerName() != record.Inner || len(record.Outer) == 0 {
		return fmt.Errorf("%s is not that of a volume: %+v", name, record)
	}
	return nil
}

// checkDeviceRecord checks the record of a staged volume.
func (w *world) checkDeviceRecord(dir string) error {
	names, err := filepath.Glob(filepath.Join(w.Root, "volumemanager/devices/*.json"))
	errs := []error{err}
	for _, name := range names {
		var record volumemanager.DeviceRecord
		if err := readRecord(name, &record); err != nil {
			errs = append(errs, err)
		}
		if record.DeviceDir == dir {
			return nil
		}
	}
	return errors.Join(append(errs, fmt.Errorf("%s is staged without a record", dir))...)
}

func readRecord(name string, record any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, record); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
