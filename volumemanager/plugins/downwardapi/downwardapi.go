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

// Name is the name of the plugin.
const Name = "kubernetes.io/downward-api"

// Options are the options of New. The zero value is valid.
type Options struct {
	// Allocatable returns the node's allocatable resources, the default for missing limits of a
	// container. The list is only read. Defaults to an empty list: a missing limit is an error.
	Allocatable func() v1.ResourceList
	// Mounter mounts a tmpfs for each volume; with mount.None the files are on the disk. Defaults
	// to mount.Detect().
	Mounter mount.Mounter
}

// Plugin implements volumemanager.Plugin and Refresher. See New.
type Plugin struct{ content.Plugin }

// New returns a plugin. The error is always nil.
func New(o Options) (*Plugin, error) {
	if o.Allocatable == nil {
		o.Allocatable = func() v1.ResourceList { return nil }
	}
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	return &Plugin{content.NewPlugin(Name, content.Volumes{Mounter: o.Mounter, Medium: content.Memory},
		func(v *v1.Volume) bool { return v.DownwardAPI != nil }, o.files)}, nil
}

// files returns the files for the present state of the pod.
func (o Options) files(_ context.Context, m volumemanager.Mount) (payload.Payload, error) {
	want := m.Spec.Volume.DownwardAPI
	files := payload.Payload{}
	defaults := content.Defaults{Mode: want.DefaultMode, User: want.DefaultUser}
	return files, downward.Files(files, m.Pod, want.Items, o.Allocatable(), defaults.File)
}
