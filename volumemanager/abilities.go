// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"

	"k8s.io/apimachinery/pkg/api/resource"
)

// What follows are abilities that a Plugin may have; they are found by
// assertion. The rules of Plugin for concurrency, ctx and errors hold for them.

// Refresher is a Plugin some of whose volumes change after they are set up
// (ConfigMaps; CSI drivers that want to be republished).
type Refresher interface {
	// NeedsRefresh reports whether SetUp, with Mount.Remount, shall run again
	// whenever the pod is synced or Manager.Refresh asks for it. It is quick: it
	// is asked with nothing but memory at hand.
	NeedsRefresh(spec Spec) bool
}

// Reconstructor is a Plugin that can tell from disk what a volume is for which
// there is no mount record, because another agent set it up. Without this
// ability, TearDown gets a zero Spec.
type Reconstructor interface {
	// Reconstruct does not look behind a mount, so that it cannot hang.
	Reconstruct(p Place) (Spec, error)
}

// Shared is a Plugin with volumes that several pods of the node use at once, and
// that have steps done once for all of them (DeviceMounter, Attacher, Expander).
type Shared interface {
	// VolumeID names the volume behind spec on this node; equal for all pods.
	// "" makes the volume the pod's own. It looks at spec only.
	VolumeID(spec Spec) (string, error)
}

// DeviceMounter is a Shared plugin that stages a volume once for the node before
// SetUp takes it to the pods.
type DeviceMounter interface {
	Shared
	// DeviceDir is where under root the volume is staged; "" if it need not be.
	// It looks at its arguments only.
	DeviceDir(root string, spec Spec) (string, error)
	// MountDevice stages the volume. Idempotent.
	MountDevice(ctx context.Context, d Device) error
	// UnmountDevice undoes MountDevice, also one that failed, was cut off or
	// never ran. Idempotent. No pod uses the volume as far as the manager knows;
	// with a mount that refers to it still there, it must refuse.
	UnmountDevice(ctx context.Context, d Device) error
}

// Device is a volume as it is staged for all pods of the node.
type Device struct {
	// Root is Options.Root.
	Root string
	Spec Spec
	// Path is the device, as WaitForAttach returned it; may be "".
	Path string
	// Dir is where it is staged; as DeviceMounter.DeviceDir said.
	Dir string
}

// Attacher is a Shared plugin with volumes that something else must attach to
// the node first.
type Attacher interface {
	Shared
	// Attachable reports whether spec is such a volume. It looks at spec only, or
	// at what the plugin has in memory.
	Attachable(spec Spec) bool
	// WaitForAttach returns the device once it has appeared on the node. hint is
	// the device path in the node's status; may be "".
	WaitForAttach(ctx context.Context, spec Spec, hint string) (devicePath string, err error)
}

// AttachLimiter is an Attacher that can tell that a volume will not be attached,
// because the node has as many as it can.
type AttachLimiter interface {
	// Exhausted is asked when a wait for the volume has failed.
	Exhausted(ctx context.Context, spec Spec) (bool, error)
}

// Expander is a Shared plugin that can grow the file system of a volume.
type Expander interface {
	Shared
	// Expand grows the volume to e.To or more. It is called when the volume is set up
	// for the first time, and later while pods use it. An error of class
	// Terminal says that this node cannot do it: it is not tried again, and the
	// volume is used as it is.
	Expand(ctx context.Context, e Expansion) error
}

// Expansion is a volume that is to be grown.
type Expansion struct {
	Device
	// MountedPath is where one of the pods has it.
	MountedPath string
	From, To    resource.Quantity
}

// BlockMapper is a Plugin that can give volumes to pods as block devices. Its
// methods take the place of SetUp and TearDown, with their rules, for claims
// with volumeMode Block; they use Place.BlockPath in the place of Place.Dir.
type BlockMapper interface {
	// MapBlock returns the device as Mounted.Path.
	MapBlock(ctx context.Context, m Mount) (Mounted, error)
	// UnmapBlock undoes MapBlock.
	UnmapBlock(ctx context.Context, u Unmount) error
}
