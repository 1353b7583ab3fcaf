// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/content"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/payload"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// Name is the plugin's.
const Name = "kubernetes.io/secret"

// Source knows Secrets. It is called concurrently, and its objects are not written to. That one does not exist is an
// error for which apierrors.IsNotFound is true; any other error says that this is not known.
type Source interface {
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// SourceFunc is a function that is a Source.
type SourceFunc func(ctx context.Context, namespace, name string) (*v1.Secret, error)

// Secret calls f.
func (f SourceFunc) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return f(ctx, namespace, name)
}

// Options are the options of New.
type Options struct {
	// Source is where the objects come from. Required.
	Source Source
	// Mounter mounts a tmpfs for each volume; with mount.None the files lie on the disk. Defaults to mount.Detect().
	Mounter mount.Mounter
}

// Plugin is a volumemanager.Plugin and Refresher. See New.
type Plugin struct {
	source  Source
	volumes content.Volumes
}

// New returns a plugin. An error names the option that is wrong.
func New(o Options) (*Plugin, error) {
	if o.Source == nil {
		return nil, errors.New("secret: Options.Source is required")
	}
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	return &Plugin{o.Source, content.Volumes{Mounter: o.Mounter, Medium: content.Memory}}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports says so of secret volumes.
func (*Plugin) Supports(s volumemanager.Spec) bool {
	return s.Volume != nil && s.Volume.Secret != nil
}

// NeedsRefresh says so always: an optional object may come later.
func (*Plugin) NeedsRefresh(volumemanager.Spec) bool { return true }

// SetUp writes what the Secret holds. The object is fetched first: if it is not there, nothing is touched.
func (p *Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	files, err := p.files(ctx, m)
	if err != nil {
		return volumemanager.Mounted{}, content.NameVolume(m, err)
	}
	return p.volumes.SetUp(ctx, m, files)
}

func (p *Plugin) files(ctx context.Context, m volumemanager.Mount) (payload.Payload, error) {
	want := m.Spec.Volume.Secret
	files := payload.Payload{}
	object, err := p.source.Secret(ctx, m.Pod.Namespace, want.SecretName)
	object, err = content.Fetched(object, err, "secret", m.Pod.Namespace, want.SecretName, want.Optional)
	if err != nil || object == nil {
		return files, err
	}
	return files, content.Secret(files, object, want.Items, content.Defaults{Mode: want.DefaultMode, User: want.DefaultUser}, want.Optional)
}

// TearDown removes the volume.
func (p *Plugin) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	return p.volumes.TearDown(ctx, u)
}
