// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
)

// Name is the plugin's.
const Name = "kubernetes.io/image"

// ErrUnsupported says that the container runtime cannot mount images.
var ErrUnsupported = errors.New("the container runtime cannot mount images")

// Ensurer has images pulled. It is called concurrently, also for one image; one that is here already returns at once.
// An error may have a class of volumemanager; without one it is Final: nothing is left of a pull that failed.
type Ensurer interface {
	EnsureImage(ctx context.Context, pod *v1.Pod, volume *v1.ImageVolumeSource) error
}

// EnsurerFunc is a function that is an Ensurer.
type EnsurerFunc func(ctx context.Context, pod *v1.Pod, volume *v1.ImageVolumeSource) error

// EnsureImage calls f.
func (f EnsurerFunc) EnsureImage(ctx context.Context, pod *v1.Pod, volume *v1.ImageVolumeSource) error {
	return f(ctx, pod, volume)
}

// None refuses image volumes, for runtimes that cannot mount them.
type None struct{}

// EnsureImage returns ErrUnsupported, a terminal error.
func (None) EnsureImage(context.Context, *v1.Pod, *v1.ImageVolumeSource) error {
	return volumemanager.Terminal(ErrUnsupported)
}

// Options are the options of New.
type Options struct {
	// Images has images pulled. Required.
	Images Ensurer
}

// Plugin is a volumemanager.Plugin. See New.
type Plugin struct{ images Ensurer }

// New returns a plugin. An error names the option that is wrong.
func New(o Options) (*Plugin, error) {
	if o.Images == nil {
		return nil, errors.New("image: Options.Images is required")
	}
	return &Plugin{o.Images}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports says so of image volumes.
func (*Plugin) Supports(s volumemanager.Spec) bool { return s.Volume != nil && s.Volume.Image != nil }

// SetUp makes sure of the image. Of a volume that is in use the image is there.
func (p *Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	fail := func(err error) (volumemanager.Mounted, error) {
		return volumemanager.Mounted{}, fmt.Errorf("volume %q: %w", m.Spec.InnerName(), err)
	}
	want := m.Spec.Volume.Image
	if want.Reference == "" {
		return fail(volumemanager.Terminal(errors.New("image volume without a reference")))
	}
	if m.Reconstructed && want.PullPolicy == v1.PullAlways {
		again := *want // what may be in use must not depend on a registry
		again.PullPolicy = v1.PullIfNotPresent
		want = &again
	}
	if !m.Remount {
		if err := p.images.EnsureImage(ctx, m.Pod, want); err != nil {
			return fail(fmt.Errorf("image %q: %w", want.Reference, classified(err)))
		}
	}
	return volumemanager.Mounted{ReadOnly: true}, nil
}

// classified makes an error without a class Final.
func classified(err error) error {
	for _, class := range []error{
		volumemanager.ErrTransient, volumemanager.ErrFinal, volumemanager.ErrTerminal, volumemanager.ErrUncertain,
	} {
		if errors.Is(err, class) {
			return err
		}
	}
	return volumemanager.Final(err)
}

// TearDown does nothing: the runtime unmounts with the container.
func (*Plugin) TearDown(context.Context, volumemanager.Unmount) error { return nil }
