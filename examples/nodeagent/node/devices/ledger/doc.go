// SPDX-License-Identifier: Apache-2.0

// Package ledger records the devices of device plug-ins and the containers that hold them. The
// package is pure: it uses no lock, no clock and no I/O.
//
//	book := ledger.New()
//	book.Report("example.com/gpu", []ledger.Device{{ID: "gpu-0", Healthy: true}})
//	if err := book.Reserve(pod); err != nil { … } // refuse the pod
//	for _, h := range book.Pending(pod.UID) {
//		// ask the plug-in for h.IDs(), then
//		book.Commit(h.Slot, answer)
//	}
//	book.Release(pod.UID) // when no container of the pod runs
//
// The caller
//  1. calls Report with every full list of a plug-in, Leave when the plug-in is gone, and Forget
//     when the plug-in stays away.
//  2. calls Reserve before a pod starts, and Release when the pod has ended.
//  3. protects the Ledger against concurrent calls.
//
// # The choice of devices
//
// A container holds devices for its limits of known resources. A plain init container ends before
// the next container of its pod begins, so later containers take over its devices first. Devices of
// sidecars are not taken over. Further devices are free healthy devices, in the order of their IDs.
// Prefer replaces the choice by that of the plug-in, before the devices are committed.
//
// NUMA nodes of devices are recorded and do not influence the choice: the node has no topology
// manager. pool.free is the only place that orders free devices.
package ledger
