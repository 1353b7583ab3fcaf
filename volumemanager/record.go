// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// recordVersion is the version of the format that is written and read.
const recordVersion = 1

// MountRecord is what is kept on disk of one volume of one pod, in Place.Record,
// from before its first SetUp until after its TearDown. It is what an agent knows
// of the volume after a restart, without a cluster. It names Secrets but holds no
// content.
type MountRecord struct {
	// Version is 1.
	Version int `json:"version"`
	// PodUID, Plugin and the folder's name say which volume it is.
	PodUID types.UID `json:"podUID"`
	Plugin string    `json:"plugin"`
	Inner  string    `json:"inner"`
	// Namespace and Pod are the pod's name, for people who read the record.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	// Outer are the names of the pod's volumes that this is, sorted.
	Outer []string `json:"outer"`
	// Block: the volume is given to the pod as a device.
	Block bool `json:"block,omitempty"`
	// Spec is what the plugin was given.
	Spec Spec `json:"spec"`
	// DevicePath and DeviceDir are those of Mount.
	DevicePath string `json:"devicePath,omitempty"`
	DeviceDir  string `json:"deviceDir,omitempty"`
}

// DeviceRecord is what is kept on disk of a volume that is staged for all pods,
// from before MountDevice until after UnmountDevice, in
// volumemanager/devices/<sha256 of the volume's unique name>.json under the root.
type DeviceRecord struct {
	// Version is 1.
	Version int `json:"version"`
	// Volume is the unique name, Plugin the name of the plugin.
	Volume string `json:"volume"`
	Plugin string `json:"plugin"`
	Spec   Spec   `json:"spec"`
	// DevicePath and DeviceDir are Device.Path and Device.Dir.
	DevicePath string `json:"devicePath,omitempty"`
	DeviceDir  string `json:"deviceDir,omitempty"`
}

// parseRecord reads the record of the volume at p. It is an error if it is that
// of another volume.
func parseRecord(p Place, data []byte) (MountRecord, error) {
	var r MountRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return MountRecord{}, fmt.Errorf("mount record: %w", err)
	}
	if r.Version != recordVersion {
		return MountRecord{}, fmt.Errorf("mount record has version %d, want %d", r.Version, recordVersion)
	}
	if r.PodUID != p.PodUID || r.Plugin != p.Plugin || r.Inner != p.Inner {
		return MountRecord{}, fmt.Errorf("mount record is that of volume %q of plugin %q and pod %q", r.Inner, r.Plugin, r.PodUID)
	}
	return r, nil
}

// parseDeviceRecord reads the record of a staged volume.
func parseDeviceRecord(data []byte) (DeviceRecord, error) {
	var r DeviceRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return DeviceRecord{}, fmt.Errorf("device record: %w", err)
	}
	if r.Version != recordVersion {
		return DeviceRecord{}, fmt.Errorf("device record has version %d, want %d", r.Version, recordVersion)
	}
	if r.Volume == "" || r.Plugin == "" {
		return DeviceRecord{}, fmt.Errorf("device record without a volume or plugin")
	}
	return r, nil
}
