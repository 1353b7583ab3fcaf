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

// Name is the name of the plugin.
const Name = "kubernetes.io/secret"

// Source returns Secrets. It is called concurrently, and its objects are not written to. For a
// missing object, apierrors.IsNotFound must be true for the error. Any other error means that the
// state of the object is not known.
type Source interface {
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// SourceFunc is a func that implements Source.
type SourceFunc func(ctx context.Context, namespace, name string) (*v1.Secret, error)

// Secret calls f.
func (f SourceFunc) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return f(ctx, namespace, name)
}

// Options are the options of New.
type Options struct {
	// Source returns the objects. Required.
	Source Source
	// Mounter mounts a tmpfs for each volume; with mount.None the files are on the disk. Defaults
	// to mount.Detect().
	Mounter mount.Mounter
}

// Plugin implements volumemanager.Plugin and Refresher. See New.
type Plugin struct{ content.Plugin }

// New returns a plugin. The error names the invalid option.
func New(o Options) (*Plugin, error) {
	if o.Source == nil {
		return nil, errors.New("secret: Options.Source is required")
	}
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	return &Plugin{content.NewPlugin(Name, content.Volumes{Mounter: o.Mounter, Medium: content.Memory},
		func(v *v1.Volume) bool { return v.Secret != nil }, o.files)}, nil
}

// files fetches the Secret and returns its content.
func (o Options) files(ctx context.Context, m volumemanager.Mount) (payload.Payload, error) {
	want := m.Spec.Volume.Secret
	files := payload.Payload{}
	object, err := o.Source.Secret(ctx, m.Pod.Namespace, want.SecretName)
	object, err = content.Fetched(object, err, "secret", m.Pod.Namespace, want.SecretName, want.Optional)
	if err != nil || object == nil {
		return files, err
	}
	return files, content.Secret(files, object, want.Items, content.Defaults{Mode: want.DefaultMode, User: want.DefaultUser}, want.Optional)
}
