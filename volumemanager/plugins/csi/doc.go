// SPDX-License-Identifier: Apache-2.0

// Package csi implements volumes of storage drivers that speak CSI
// (container-storage-interface/spec 1.13) on a unix socket: persistent volumes and inline ephemeral
// volumes, file systems and block devices.
//
//	plugin, err := csi.New(csi.Options{
//		Socket: csi.SocketsBelow("/var/lib/kubelet/plugins"), // <driver>/csi.sock
//		Drivers: drivers, // CSIDriver objects, if there is a cluster
//		Secrets: secrets, // the secrets named by volumes
//	})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// Build programs with this package with -tags grpcnotrace, which saves tens of mebibytes.
//
// The caller's duties:
//
//  1. Run the drivers' node services. A driver that is down makes its own volumes wait, and no
//     others.
//  2. Set Drivers if drivers have CSIDriver objects. Without Drivers, a driver needs attaching if
//     Attachments is set, gets no pod info, is not republished, and has the fsGroup policy
//     ReadWriteOnceWithFSType. If the objects come over a network, Drivers should implement
//     Awaiter.
//  3. Set Attachments if a controller attaches volumes. Package volumemanager/volumeapi implements
//     Drivers and Attachments.
//
// # The lifecycle of a volume
//
//	MountDevice   vol_data.json ─> NodeStageVolume     plugins/kubernetes.io/csi/<driver>/<sha256(handle)>/globalmount
//	SetUp         vol_data.json ─> NodePublishVolume ─> fsGroup       pods/<uid>/volumes/kubernetes.io~csi/<pv>/mount
//	TearDown      NodeUnpublishVolume ─> rmdir ─> remove vol_data.json
//	UnmountDevice NodeUnstageVolume   ─> rmdir ─> remove vol_data.json
//
// vol_data.json has the kubelet's format. It contains all data for undoing the step, also after a
// crash and without a cluster. Folders are removed by rmdir only: a mount or file left by a driver
// makes TearDown fail and is not lost.
//
// The package starts no goroutine, and keeps no connection after a call.
//
// # Differences from the kubelet (1.36)
//
//   - vol_data.json is written to a temporary file, synced and renamed. A crash may truncate the
//     kubelet's file, and then the kubelet loses track of the volume.
//   - A failed republish leaves the volume unchanged, also after a restart (issues 121271, 139045).
//   - After a crash before the fsGroup was applied, NodePublishVolume is repeated. The kubelet
//     takes the volume for complete.
//   - An fsGroup that cannot be applied is an error. The fsGroup is passed to NodePublishVolume
//     only, not to NodeStageVolume.
//   - A block volume is published at pods/<uid>/volumeDevices/kubernetes.io~csi/<pv> itself,
//     without a link.
//   - Values of secrets are removed from a driver's error texts.
//   - No registration: Options.Socket locates a driver. Info returns the driver's data for a
//     CSINode object.
package csi
