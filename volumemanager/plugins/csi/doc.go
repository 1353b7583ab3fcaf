// SPDX-License-Identifier: Apache-2.0

// Package csi gives pods volumes of storage drivers that speak CSI (container-storage-interface/spec 1.13) on a unix
// socket: persistent ones and inline ephemeral ones, file systems and block devices.
//
//	plugin, err := csi.New(csi.Options{
//		Socket: csi.SocketsBelow("/var/lib/kubelet/plugins"), // <driver>/csi.sock
//		Drivers: drivers, // CSIDriver objects, if there is a cluster
//		Secrets: secrets, // for the secrets that volumes name
//	})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// Programs with this package are built with -tags grpcnotrace, which spares tens of mebibytes.
//
// The caller's duties:
//
//  1. Run the drivers' node services; one that is not there makes its volumes wait, and harms nobody else.
//  2. Give Drivers where drivers have CSIDriver objects: without, a driver needs attaching if there are Attachments, gets
//     no pod info, is not republished to, and has the fsGroup policy ReadWriteOnceWithFSType. Objects that come over a
//     network are an Awaiter, too.
//  3. Give Attachments where a controller attaches volumes. Package volumemanager/apiserver has these two.
//
// # A volume's way
//
//	MountDevice   vol_data.json ─> NodeStageVolume     plugins/kubernetes.io/csi/<driver>/<sha256(handle)>/globalmount
//	SetUp         vol_data.json ─> NodePublishVolume ─> fsGroup       pods/<uid>/volumes/kubernetes.io~csi/<pv>/mount
//	TearDown      NodeUnpublishVolume ─> rmdir ─> remove vol_data.json
//	UnmountDevice NodeUnstageVolume   ─> rmdir ─> remove vol_data.json
//
// vol_data.json is the kubelet's, and says all that is needed to undo the step, also after a crash and without a
// cluster. Folders are removed by rmdir only: what a driver left mounted, or in the folder, makes TearDown fail and is
// not lost.
//
// There is no goroutine, and no connection outside of a call.
//
// # Differences from the kubelet (1.36)
//
//   - vol_data.json is written to another file, synced and renamed; the kubelet's can be cut short by a crash, and the
//     volume is lost track of then.
//   - A republish that fails leaves the volume as it is; so does one after a restart (issues 121271, 139045).
//   - NodePublishVolume is repeated after a crash before the fsGroup was through; the kubelet takes the volume for done.
//   - An fsGroup that cannot be applied is an error. It is not passed to NodeStageVolume, only to NodePublishVolume.
//   - A block volume is published at pods/<uid>/volumeDevices/kubernetes.io~csi/<pv> itself, without a link.
//   - A value of a secret in a driver's error is blotted out.
//   - No registration: a driver is where Socket says. Info asks it what a CSINode object needs.
package csi
