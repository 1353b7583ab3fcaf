// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/payload"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/volumedir"
)

// Plugin implements volumemanager.Plugin and Refresher for volumes of files from an object. Plugins
// embed it.
type Plugin struct {
	name    string
	volumes Volumes
	has     func(*v1.Volume) bool
	files   Files
}

// Files returns the content of a volume. It is called before any change on the disk.
type Files func(context.Context, volumemanager.Mount) (payload.Payload, error)

// NewPlugin returns the plugin called name for the volumes for which has returns true.
func NewPlugin(name string, volumes Volumes, has func(*v1.Volume) bool, files Files) Plugin {
	return Plugin{name, volumes, has, files}
}

// Name implements volumemanager.Plugin.
func (p *Plugin) Name() string { return p.name }

// Supports implements volumemanager.Plugin.
func (p *Plugin) Supports(s volumemanager.Spec) bool { return s.Volume != nil && p.has(s.Volume) }

// NeedsRefresh implements volumemanager.Refresher. It is always true: an optional object may be
// created later, and labels and annotations may change.
func (*Plugin) NeedsRefresh(volumemanager.Spec) bool { return true }

// SetUp writes the files of a volume. If the content is not available, SetUp changes nothing.
func (p *Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	files, err := p.files(ctx, m)
	if err != nil {
		return volumemanager.Mounted{}, volumedir.Named(m.Spec.InnerName(), err)
	}
	return p.volumes.SetUp(ctx, m, files)
}

// TearDown removes the volume.
func (p *Plugin) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	return p.volumes.TearDown(ctx, u)
}
