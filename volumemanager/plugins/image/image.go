// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
)

// Name is the name of the plugin.
const Name = "kubernetes.io/image"

// ErrUnsupported reports that the container runtime cannot mount images.
var ErrUnsupported = errors.New("the container runtime cannot mount images")

// Ensurer pulls images. It is called concurrently, also for the same image, and returns at once for
// an image that is present. An error may have a class of volumemanager. An error without a class is
// Final, because a failed pull leaves nothing behind.
type Ensurer interface {
	EnsureImage(ctx context.Context, pod *v1.Pod, volume *v1.ImageVolumeSource) error
}

// EnsurerFunc is a func that implements Ensurer.
type EnsurerFunc func(ctx context.Context, pod *v1.Pod, volume *v1.ImageVolumeSource) error

// EnsureImage calls f.
func (f EnsurerFunc) EnsureImage(ctx context.Context, pod *v1.Pod, volume *v1.ImageVolumeSource) error {
	return f(ctx, pod, volume)
}

// Options are the options of New.
type Options struct {
	// Images pulls images. Required.
	Images Ensurer
}

// Plugin implements volumemanager.Plugin. See New.
type Plugin struct{ images Ensurer }

// New returns a plugin. The error names the invalid option.
func New(o Options) (*Plugin, error) {
	if o.Images == nil {
		return nil, errors.New("image: Options.Images is required")
	}
	return &Plugin{o.Images}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports reports whether s is an image volume.
func (*Plugin) Supports(s volumemanager.Spec) bool { return s.Volume != nil && s.Volume.Image != nil }

// SetUp makes sure that the image is pulled. With Remount the image is in use and therefore
// present.
func (p *Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	fail := func(err error) (volumemanager.Mounted, error) {
		return volumemanager.Mounted{}, fmt.Errorf("volume %q: %w", m.Spec.InnerName(), err)
	}
	want := m.Spec.Volume.Image
	if want.Reference == "" {
		return fail(volumemanager.Terminal(errors.New("image volume without a reference")))
	}
	if m.Reconstructed && want.PullPolicy == v1.PullAlways {
		again := *want // a volume in use must not depend on a registry
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

// TearDown does nothing, because the container runtime unmounts the image with the container.
func (*Plugin) TearDown(context.Context, volumemanager.Unmount) error { return nil }
