// SPDX-License-Identifier: Apache-2.0

// Package hostpath implements hostPath volumes: folders, files, sockets and devices of the node.
//
//	plugin, err := hostpath.New(hostpath.Options{})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duty: hostPath gives a pod access to any path of the node. Refuse unauthorized pods
// before passing them to the manager.
//
// The plugin creates nothing below the pod's folder. On the node, only the types …OrCreate create a
// path; the plugin changes or removes nothing else, and changes no owner. It starts no goroutine.
//
// Differences from the kubelet (1.36): a relative path is refused. An …OrCreate type creates the
// path only under its own name: a dangling link is an error.
package hostpath
