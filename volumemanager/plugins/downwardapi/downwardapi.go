// SPDX-License-Identifier: Apache-2.0

package downwardapi

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/content"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/downward"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/payload"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// Name is the plugin's.
const Name = "kubernetes.io/downward-api"

// Options are the options of New. The zero value is valid.
type Options struct {
	// Allocatable returns what the node can give at most, for limits that a container does not set. The list is only
	// read. Defaults to nothing: such a limit is an error.
	Allocatable func() v1.ResourceList
	// Mounter mounts a tmpfs for each volume; with mount.None the files lie on the disk. Defaults to mount.Detect().
	Mounter mount.Mounter
}

// Plugin is a volumemanager.Plugin and Refresher. See New.
type Plugin struct {
	allocatable func() v1.ResourceList
	volumes     content.Volumes
}

// New returns a plugin. There is no error yet.
func New(o Options) (*Plugin, error) {
	if o.Allocatable == nil {
		o.Allocatable = func() v1.ResourceList { return nil }
	}
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	return &Plugin{o.Allocatable, content.Volumes{Mounter: o.Mounter, Medium: content.Memory}}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports says so of downwardAPI volumes.
func (*Plugin) Supports(s volumemanager.Spec) bool {
	return s.Volume != nil && s.Volume.DownwardAPI != nil
}

// NeedsRefresh says so always: labels and annotations may change.
func (*Plugin) NeedsRefresh(volumemanager.Spec) bool { return true }

// SetUp writes what the pod says now.
func (p *Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	want := m.Spec.Volume.DownwardAPI
	files := payload.Payload{}
	defaults := content.Defaults{Mode: want.DefaultMode, User: want.DefaultUser}
	if err := downward.Files(files, m.Pod, want.Items, p.allocatable(), defaults.File); err != nil {
		return volumemanager.Mounted{}, content.NameVolume(m, err)
	}
	return p.volumes.SetUp(ctx, m, files)
}

// TearDown removes the volume.
func (p *Plugin) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	return p.volumes.TearDown(ctx, u)
}
