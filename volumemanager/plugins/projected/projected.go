// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/content"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
)

// Name is the plugin's.
const Name = "kubernetes.io/projected"

// Options are the options of New. The zero value is valid. A source that is nil makes volumes that name it fail.
type Options struct {
	// ConfigMaps and Secrets are where these objects come from. Defaults to none.
	ConfigMaps configmap.Source
	Secrets    secret.Source
	// Tokens makes tokens, best a *TokenCache: it is asked at each refresh. Defaults to none.
	Tokens TokenSource
	// TrustBundles knows ClusterTrustBundles. Defaults to none.
	TrustBundles TrustBundles
	// Certificates has pod certificates issued. Defaults to none.
	Certificates Certificates
	// Allocatable returns what the node can give at most, for limits that a container does not set. The list is only
	// read. Defaults to nothing: such a limit is an error.
	Allocatable func() v1.ResourceList
	// Mounter mounts a tmpfs for each volume; with mount.None the files lie on the disk. Defaults to mount.Detect().
	Mounter mount.Mounter
}

// Plugin is a volumemanager.Plugin and Refresher. See New.
type Plugin struct {
	options Options
	volumes content.Volumes
}

// New returns a plugin. There is no error yet.
func New(o Options) (*Plugin, error) {
	if o.Allocatable == nil {
		o.Allocatable = func() v1.ResourceList { return nil }
	}
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	return &Plugin{o, content.Volumes{Mounter: o.Mounter, Medium: content.Memory}}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports says so of projected volumes.
func (*Plugin) Supports(s volumemanager.Spec) bool {
	return s.Volume != nil && s.Volume.Projected != nil
}

// NeedsRefresh says so always.
func (*Plugin) NeedsRefresh(volumemanager.Spec) bool { return true }

// SetUp writes what the sources say. All of them are asked first: if one fails, nothing is touched.
func (p *Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	files, err := p.collect(ctx, m)
	if err != nil {
		return volumemanager.Mounted{}, content.NameVolume(m, err)
	}
	return p.volumes.SetUp(ctx, m, files)
}

// TearDown removes the volume, and has the pod's tokens forgotten.
func (p *Plugin) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	if f, ok := p.options.Tokens.(TokenForgetter); ok {
		f.Forget(u.PodUID)
	}
	return p.volumes.TearDown(ctx, u)
}
