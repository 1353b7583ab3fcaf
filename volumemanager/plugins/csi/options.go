// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
)

// Name is the name of the plugin.
const Name = "kubernetes.io/csi"

// driverTimeout limits all calls of a driver in an operation. It is the kubelet's.
const driverTimeout = 2 * time.Minute

// awaitPatience limits the wait of a call for Drivers; the manager repeats the call.
const awaitPatience = 5 * time.Second

// Drivers returns the CSIDriver objects of a cluster. It answers from memory and is called
// concurrently.
type Drivers interface {
	// Driver returns the object of a driver, which is only read; false if there is no object.
	Driver(name string) (*storagev1.CSIDriver, bool)
}

// Awaiter is an optional ability of Drivers that are incomplete at first. Until Await has returned
// nil, no operation on a new volume starts.
type Awaiter interface {
	// Await waits until the objects are known, or ctx ends.
	Await(ctx context.Context) error
}

// Attachments returns the volumes that a controller has attached to this node. It is called
// concurrently.
type Attachments interface {
	// Attachment waits until the volume is attached and returns the publish context from the
	// driver's controller. For an attached volume it returns soon.
	Attachment(ctx context.Context, spec volumemanager.Spec) (map[string]string, error)
}

// Limits is an optional ability of Attachments. Exhausted reports whether a volume is not attached
// because the node is at its volume limit. It is called after a wait for the volume has failed.
type Limits interface {
	Exhausted(ctx context.Context, spec volumemanager.Spec) (bool, error)
}

// Token is a service account token for a driver.
type Token struct {
	Value   string
	Expires time.Time
}

// Tokens creates tokens of a pod's service account for drivers that request tokens. It is called
// concurrently.
type Tokens interface {
	// Token returns a token for an audience; "" is the API server. seconds is the requested
	// lifetime, nil if the driver does not specify a lifetime.
	Token(ctx context.Context, pod *v1.Pod, audience string, seconds *int64) (Token, error)
}

// Options are the options of New.
type Options struct {
	// Socket returns the path of a driver's socket; "" for an unknown driver. It is called
	// concurrently. Required.
	Socket func(driver string) string
	// Drivers returns CSIDriver objects. Defaults to none.
	Drivers Drivers
	// Secrets returns the secrets named by volumes. Defaults to none: a volume with a secret is an
	// error.
	Secrets secret.Source
	// Attachments returns the attached volumes. Defaults to nil: no volume needs attaching.
	Attachments Attachments
	// Tokens creates tokens. Defaults to none: a driver that requests tokens gets an error.
	Tokens Tokens
	// NodeName is the name of the node in vol_data.json. Defaults to "".
	NodeName string
	// Mounter reads the mount table; drivers mount by themselves. Defaults to mount.Detect().
	Mounter mount.Mounter
}

// SocketsBelow returns a func for Options.Socket with the paths <dir>/<driver>/csi.sock.
func SocketsBelow(dir string) func(driver string) string {
	return func(driver string) string {
		if !isElement(driver) {
			return ""
		}
		return filepath.Join(dir, driver, "csi.sock")
	}
}

// Plugin implements volumemanager.Plugin, Refresher, Reconstructor, DeviceMounter, Attacher,
// Expander and BlockMapper. See New.
type Plugin struct {
	options Options
	timeout time.Duration // of all calls of a driver in an operation
}

// New returns a plugin. The error names the invalid option.
func New(o Options) (*Plugin, error) {
	if o.Socket == nil {
		return nil, errors.New("csi: Options.Socket is required")
	}
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	return &Plugin{o, driverTimeout}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports reports whether s is a CSI volume, persistent or inline.
func (*Plugin) Supports(s volumemanager.Spec) bool {
	return s.PV != nil && s.PV.Spec.CSI != nil || s.PV == nil && s.Volume != nil && s.Volume.CSI != nil
}

// await waits until the CSIDriver objects are known.
func (p *Plugin) await(ctx context.Context) error {
	a, ok := p.options.Drivers.(Awaiter)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, awaitPatience)
	defer cancel()
	return volumemanager.Transient(a.Await(ctx))
}

// driver returns the CSIDriver object, nil if there is none.
func (p *Plugin) driver(name string) *storagev1.CSIDriverSpec {
	if p.options.Drivers == nil {
		return nil
	}
	if d, ok := p.options.Drivers.Driver(name); ok {
		return &d.Spec
	}
	return nil
}

// NeedsRefresh reports whether the driver requires republishing.
func (p *Plugin) NeedsRefresh(s volumemanager.Spec) bool {
	d := p.driver(driverOf(s))
	return d != nil && d.RequiresRepublish != nil && *d.RequiresRepublish
}
