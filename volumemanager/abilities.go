// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The following interfaces are optional abilities of a Plugin, found by assertion. The rules of
// Plugin for concurrency, ctx and errors hold for them.

// Refresher is a Plugin with volumes whose content changes after SetUp (ConfigMaps; CSI drivers
// with requiresRepublish).
type Refresher interface {
	// NeedsRefresh reports whether SetUp, with Mount.Remount, must run again whenever the pod is
	// synced or Manager.Refresh requests a refresh. NeedsRefresh reads memory only and must not
	// block.
	NeedsRefresh(spec Spec) bool
}

// Reconstructor is a Plugin that can derive a Spec from disk for a volume without a mount record,
// set up by another agent. Without this ability, TearDown gets a zero Spec.
type Reconstructor interface {
	// Reconstruct must not access a mount, so that it cannot hang.
	Reconstruct(p Place) (Spec, error)
}

// Shared is a Plugin with volumes that several pods of the node use at the same time, and that need
// steps once for all pods (DeviceMounter, Attacher, Expander).
type Shared interface {
	// VolumeID returns the name of the volume behind spec on this node, the same for all pods. ""
	// makes the volume private to the pod. VolumeID reads spec only.
	VolumeID(spec Spec) (string, error)
}

// DeviceMounter is a Shared plugin that stages a volume once for the node before SetUp mounts it
// for the pods.
type DeviceMounter interface {
	Shared
	// DeviceDir returns the staging folder of the volume under root; "" if the volume is not
	// staged. DeviceDir reads its arguments only.
	DeviceDir(root string, spec Spec) (string, error)
	// MountDevice stages the volume. Idempotent.
	MountDevice(ctx context.Context, d Device) error
	// UnmountDevice undoes MountDevice, also a MountDevice that failed, was interrupted or never
	// ran. Idempotent. The manager knows no pod that uses the volume. UnmountDevice must refuse if
	// another mount of the volume still exists.
	UnmountDevice(ctx context.Context, d Device) error
}

// Device is a volume to stage for all pods of the node.
type Device struct {
	// Root is Options.Root.
	Root string
	Spec Spec
	// Path is the device path returned by WaitForAttach; may be "".
	Path string
	// Dir is the staging folder returned by DeviceMounter.DeviceDir.
	Dir string
}

// Attacher is a Shared plugin with volumes that an external attacher must attach to the node first.
type Attacher interface {
	Shared
	// Attachable reports whether spec needs the attacher. Attachable reads spec and the plugin's
	// memory only.
	Attachable(spec Spec) bool
	// WaitForAttach returns the device path once the device has appeared on the node. hint is the
	// device path in the node's status; may be "".
	WaitForAttach(ctx context.Context, spec Spec, hint string) (devicePath string, err error)
}

// AttachLimiter is an Attacher that knows the attach limit of the node.
type AttachLimiter interface {
	// Exhausted reports whether the node is at its limit, so that the volume will not be attached.
	// It is called after a wait for the volume has failed.
	Exhausted(ctx context.Context, spec Spec) (bool, error)
}

// Expander is a Shared plugin that can grow the file system of a volume.
type Expander interface {
	Shared
	// Expand grows the volume to e.To or more. It is called at the first SetUp of the volume, and
	// later while pods use the volume. An error of class Terminal means: this node cannot expand
	// the volume. Then the volume is used with its present size, and Expand is not retried.
	Expand(ctx context.Context, e Expansion) error
}

// Expansion is a volume to expand.
type Expansion struct {
	Device
	// MountedPath is the path of the volume in a pod.
	MountedPath string
	From, To    resource.Quantity
}

// BlockMapper is a Plugin that can map volumes into pods as block devices. For claims with
// volumeMode Block, its methods replace SetUp and TearDown and follow their rules, with
// Place.BlockPath instead of Place.Dir.
type BlockMapper interface {
	// MapBlock returns the device as Mounted.Path.
	MapBlock(ctx context.Context, m Mount) (Mounted, error)
	// UnmapBlock undoes MapBlock.
	UnmapBlock(ctx context.Context, u Unmount) error
}
