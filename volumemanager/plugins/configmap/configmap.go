// SPDX-License-Identifier: Apache-2.0

package configmap

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
const Name = "kubernetes.io/configmap"

// Source returns ConfigMaps. It is called concurrently, and its objects are not written to. For a
// missing object, apierrors.IsNotFound must be true for the error. Any other error means that the
// state of the object is not known.
type Source interface {
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// Options are the options of New.
type Options struct {
	// Source returns the objects. Required.
	Source Source
	// Mounter reads the mount table. Defaults to mount.Detect().
	Mounter mount.Mounter
}

// SourceFunc is a func that implements Source.
type SourceFunc func(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)

// ConfigMap calls f.
func (f SourceFunc) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return f(ctx, namespace, name)
}

// Plugin implements volumemanager.Plugin and Refresher. See New.
type Plugin struct{ content.Plugin }

// New returns a plugin. The error names the invalid option.
func New(o Options) (*Plugin, error) {
	if o.Source == nil {
		return nil, errors.New("configmap: Options.Source is required")
	}
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	volumes := content.Volumes{Mounter: o.Mounter, Medium: content.Disk}
	return &Plugin{content.NewPlugin(Name, volumes,
		func(v *v1.Volume) bool { return v.ConfigMap != nil }, o.files)}, nil
}

// files fetches the ConfigMap and returns its content.
func (o Options) files(ctx context.Context, m volumemanager.Mount) (payload.Payload, error) {
	want := m.Spec.Volume.ConfigMap
	files := payload.Payload{}
	object, err := o.Source.ConfigMap(ctx, m.Pod.Namespace, want.Name)
	object, err = content.Fetched(object, err, "configMap", m.Pod.Namespace, want.Name, want.Optional)
	if err != nil || object == nil {
		return files, err
	}
	return files, content.ConfigMap(files, object, want.Items, content.Defaults{Mode: want.DefaultMode, User: want.DefaultUser}, want.Optional)
}
