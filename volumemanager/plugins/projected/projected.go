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

// Name is the name of the plugin.
const Name = "kubernetes.io/projected"

// Options are the options of New. The zero value is valid. A volume with a nil source fails.
type Options struct {
	// ConfigMaps and Secrets return these objects. Default to none.
	ConfigMaps configmap.Source
	Secrets    secret.Source
	// Tokens creates tokens at each refresh; use a *TokenCache. Defaults to none.
	Tokens TokenSource
	// TrustBundles returns ClusterTrustBundles. Defaults to none.
	TrustBundles TrustBundles
	// Certificates returns pod certificates. Defaults to none.
	Certificates Certificates
	// Allocatable returns the node's allocatable resources, the default for missing limits of a
	// container. The list is only read. Defaults to an empty list: a missing limit is an error.
	Allocatable func() v1.ResourceList
	// Mounter mounts a tmpfs for each volume; with mount.None the files are on the disk. Defaults
	// to mount.Detect().
	Mounter mount.Mounter
}

// Plugin implements volumemanager.Plugin and Refresher. See New.
type Plugin struct {
	content.Plugin
	options Options
}

// New returns a plugin. The error is always nil.
func New(o Options) (*Plugin, error) {
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	if o.Allocatable == nil {
		o.Allocatable = func() v1.ResourceList { return nil }
	}
	p := &Plugin{options: o}
	p.Plugin = content.NewPlugin(Name, content.Volumes{Mounter: o.Mounter, Medium: content.Memory},
		func(v *v1.Volume) bool { return v.Projected != nil }, p.collect)
	return p, nil
}

// TearDown removes the volume, and drops the pod's tokens from the TokenSource.
func (p *Plugin) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	if f, ok := p.options.Tokens.(TokenForgetter); ok {
		f.Forget(u.PodUID)
	}
	return p.Plugin.TearDown(ctx, u)
}
