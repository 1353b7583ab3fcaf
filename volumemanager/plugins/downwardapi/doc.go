// SPDX-License-Identifier: Apache-2.0

// Package downwardapi makes downwardAPI volumes: fields of the pod, and resources of its containers, as files.
//
//	plugin, err := downwardapi.New(downwardapi.Options{Allocatable: node.Allocatable})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duty: hand the manager the newest pod (labels and annotations change in place), and let it sync the pod
// or call Manager.Refresh then.
//
// The plugin starts no goroutine and asks nobody: it needs no cluster, which the kubelet's projected volumes do. Files
// lie on a tmpfs of each volume's own; where the agent cannot mount, on the disk.
//
// Differences from the kubelet (1.36): those of package configmap; a limit that is not set is that of the pod, if it
// has one, before it is the node's; amounts are exact.
package downwardapi
