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

// Name is the plugin's.
const Name = "kubernetes.io/csi"

// defaultTimeout is how long a driver may take; the kubelet's.
const defaultTimeout = 2 * time.Minute

// awaitPatience is how long one call waits for Drivers; the manager calls again.
const awaitPatience = 5 * time.Second

// Drivers knows the CSIDriver objects of a cluster. It answers from memory and is called concurrently.
type Drivers interface {
	// Driver returns the object of a driver, which is only read; false if there is none.
	Driver(name string) (*storagev1.CSIDriver, bool)
}

// Awaiter is what Drivers may be, too, if they are not complete from the start: nothing new is done about a volume before
// Await has returned nil.
type Awaiter interface {
	// Await waits until the objects are known, or ctx ends.
	Await(ctx context.Context) error
}

// Attachments knows what a controller has attached to this node. It is called concurrently.
type Attachments interface {
	// Attachment waits until the volume is attached and returns what the driver's controller said of it, the publish
	// context. For one that is attached it answers soon.
	Attachment(ctx context.Context, spec volumemanager.Spec) (map[string]string, error)
}

// Limits is what Attachments may be, too: it knows whether a volume is not attached because the node has as many as it
// takes. It is asked when a wait for the volume has failed.
type Limits interface {
	Exhausted(ctx context.Context, spec volumemanager.Spec) (bool, error)
}

// Token is a service account's token for a driver.
type Token struct {
	Value   string
	Expires time.Time
}

// Tokens makes tokens of a pod's service account for drivers that ask for them. It is called concurrently.
type Tokens interface {
	// Token returns one for an audience, "" being the API server. seconds is how long it shall live, nil if the driver
	// does not say.
	Token(ctx context.Context, pod *v1.Pod, audience string, seconds *int64) (Token, error)
}

// Options are the options of New.
type Options struct {
	// Socket returns the path of a driver's socket; "" if it is not known. It is called concurrently. Required.
	Socket func(driver string) string
	// Drivers knows CSIDriver objects. Defaults to none.
	Drivers Drivers
	// Secrets has the secrets that volumes name. Defaults to none: such a volume is an error.
	Secrets secret.Source
	// Attachments says what is attached. Defaults to nil: no volume has to be.
	Attachments Attachments
	// Tokens makes tokens. Defaults to none: drivers that ask for them get an error.
	Tokens Tokens
	// NodeName is the node's, written to vol_data.json. Defaults to "".
	NodeName string
	// Mounter reads the mount table; drivers mount by themselves. Defaults to mount.Detect().
	Mounter mount.Mounter
	// Timeout is how long a driver may take for one call. Defaults to 2 minutes.
	Timeout time.Duration
}

// SocketsBelow says that a driver's socket is <dir>/<driver>/csi.sock.
func SocketsBelow(dir string) func(driver string) string {
	return func(driver string) string {
		if !isElement(driver) {
			return ""
		}
		return filepath.Join(dir, driver, "csi.sock")
	}
}

// Plugin is a volumemanager.Plugin, Refresher, Reconstructor, DeviceMounter, Attacher, Expander and BlockMapper. See
// New.
type Plugin struct{ options Options }

// New returns a plugin. An error names the option that is wrong.
func New(o Options) (*Plugin, error) {
	if o.Socket == nil {
		return nil, errors.New("csi: Options.Socket is required")
	}
	if o.Timeout < 0 {
		return nil, errors.New("csi: Options.Timeout is negative")
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	return &Plugin{o}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports says so of CSI volumes, persistent and inline.
func (*Plugin) Supports(s volumemanager.Spec) bool {
	return s.PV != nil && s.PV.Spec.CSI != nil || s.PV == nil && s.Volume != nil && s.Volume.CSI != nil
}

// await waits until it is known which CSIDriver objects there are.
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

// NeedsRefresh says so if the driver wants to be republished to.
func (p *Plugin) NeedsRefresh(s volumemanager.Spec) bool {
	d := p.driver(driverOf(s))
	return d != nil && d.RequiresRepublish != nil && *d.RequiresRepublish
}
