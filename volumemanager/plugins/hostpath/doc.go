// SPDX-License-Identifier: Apache-2.0

// Package hostpath gives pods folders, files, sockets and devices of the node.
//
//	plugin, err := hostpath.New(hostpath.Options{})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duty: hostPath gives a pod whatever the node has. Refuse pods that may not have it before.
//
// Nothing is made below the pod's folder, nothing on the node is ever changed or removed but what the types …OrCreate
// make, and no owner is changed. There is no goroutine.
//
// Differences from the kubelet (1.36): a path that is not absolute is refused; what an …OrCreate makes it makes under
// no other's name: a link that leads nowhere is an error.
package hostpath
