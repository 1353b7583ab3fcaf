// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// recordVersion is the version of the record format.
const recordVersion = 1

// MountRecord is the state on disk of a volume of a pod, in Place.Record. The record exists from
// before the first SetUp until after the TearDown. After a restart, the agent knows the volume from
// the record, without a cluster. The record names Secrets but holds no content.
type MountRecord struct {
	// Version is 1.
	Version int `json:"version"`
	// PodUID, Plugin and the folder's name identify the volume.
	PodUID types.UID `json:"podUID"`
	Plugin string    `json:"plugin"`
	Inner  string    `json:"inner"`
	// Namespace and Pod name the pod for human readers of the record.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	// Outer are the pod's names for the volume, sorted.
	Outer []string `json:"outer"`
	// Block: the pod gets the volume as a device.
	Block bool `json:"block,omitempty"`
	// Spec is the Spec passed to the plugin.
	Spec Spec `json:"spec"`
	// DevicePath and DeviceDir are as in Mount.
	DevicePath string `json:"devicePath,omitempty"`
	DeviceDir  string `json:"deviceDir,omitempty"`
}

// DeviceRecord is the state on disk of a volume that is staged for all pods. The record exists from
// before MountDevice until after UnmountDevice, in volumemanager/devices/<sha256 of the volume's
// unique name>.json under the root.
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

// parseRecord decodes the record of the volume at p. A record or spec of another volume is an error.
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
	if name := r.Spec.InnerName(); name != "" && name != p.Inner {
		return MountRecord{}, fmt.Errorf("mount record of volume %q has the spec of volume %q", p.Inner, name)
	}
	return r, nil
}

// parseDeviceRecord decodes the record of a staged volume.
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
