// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"

	"k8s.io/utils/dump"
)

// FileName is the kubelet's name of the file, in the folder of the plug-ins' sockets.
const FileName = "kubelet_internal_checkpoint"

// NoNUMA is the key in DevicesPerNUMA of devices without a NUMA node.
const NoNUMA int64 = -1

// ErrChecksum is wrapped by errors of Decode about a file whose checksum differs from its data.
var ErrChecksum = errors.New("checksum differs from the data")

// State is the content of the file.
type State struct {
	Entries []PodDevicesEntry
	// Registered are the IDs of the healthy devices of each resource.
	Registered map[string][]string
}

// PodDevicesEntry is the devices of one resource that a container holds.
type PodDevicesEntry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     DevicesPerNUMA
	AllocResp     []byte // a ContainerAllocateResponse in the format of protobuf
}

// DevicesPerNUMA lists device IDs by NUMA node. A device with several nodes is in several lists.
type DevicesPerNUMA map[int64][]string

// checkpointData is the part of the file with a checksum.
type checkpointData struct {
	PodDeviceEntries  []PodDevicesEntry
	RegisteredDevices map[string][]string
}

// file is the whole file.
type file struct {
	Data     checkpointData
	Checksum uint64
}

// Encode returns the content of a file.
func Encode(s State) ([]byte, error) {
	f := file{Data: checkpointData{PodDeviceEntries: s.Entries, RegisteredDevices: s.Registered}}
	f.Checksum = checksum(f.Data)
	return json.Marshal(f)
}

// Decode returns the state in a file. The error wraps ErrChecksum if the file was changed or cut.
func Decode(data []byte) (State, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return State{}, fmt.Errorf("checkpoint of devices: %w", err)
	}
	if sum := checksum(f.Data); sum != f.Checksum {
		return State{}, fmt.Errorf("checkpoint of devices: %w: %d is written, %d is computed", ErrChecksum, f.Checksum, sum)
	}
	return State{Entries: f.Data.PodDeviceEntries, Registered: f.Data.RegisteredDevices}, nil
}

func checksum(data checkpointData) uint64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(dump.ForHash(data))) // never fails
	return uint64(hash.Sum32())
}
