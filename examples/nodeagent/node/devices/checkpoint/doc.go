// SPDX-License-Identifier: Apache-2.0

// Package checkpoint reads and writes kubelet_internal_checkpoint, the file in which a kubelet (1.36)
// keeps the devices of containers. A kubelet can read the files of Encode, and Decode reads those of
// a kubelet, so that a node can change between the two agents with its pods running.
//
//	data, err := checkpoint.Encode(checkpoint.State{Entries: entries, Registered: healthy})
//	state, err := checkpoint.Decode(data)
//
// # The format
//
// The file is JSON: {"Data": {"PodDeviceEntries": […], "RegisteredDevices": {…}}, "Checksum": n}. The
// checksum is the FNV-32a hash of Data as printed by dump.ForHash of apimachinery. The printed text
// contains the names of the package, types and fields, so these names here are part of the format.
package checkpoint
