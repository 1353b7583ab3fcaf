// SPDX-License-Identifier: Apache-2.0

// Package downwardapi implements downwardAPI volumes: fields of the pod, and resources of its
// containers, as files.
//
//	plugin, err := downwardapi.New(downwardapi.Options{Allocatable: allocatable})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duty: pass the newest version of the pod to the manager (labels and annotations
// change in place), then sync the pod or call Manager.Refresh.
//
// The plugin starts no goroutine and needs no cluster, unlike the kubelet's projected volumes. Each
// volume has a tmpfs of its own; if the agent cannot mount, files are on the disk.
//
// Differences from the kubelet (1.36): see package configmap. A missing limit of a container
// defaults to the limit of the pod, if set, then to the node's. Amounts are exact.
package downwardapi
