// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/image"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

var spec = volumemanager.Spec{Volume: &v1.Volume{Name: "tools", VolumeSource: v1.VolumeSource{
	Image: &v1.ImageVolumeSource{Reference: "localhost/tools:1"},
}}}

func plugin(tb testing.TB, ensure image.Ensurer) *image.Plugin {
	tb.Helper()
	p, err := image.New(image.Options{Images: ensure})
	require.NoError(tb, err)
	return p
}

func mountOf(s volumemanager.Spec) volumemanager.Mount {
	return volumemanager.Mount{Spec: s, Pod: &v1.Pod{}, Place: volumemanager.Place{Root: "/nowhere", PodUID: "u", Plugin: image.Name, Inner: "tools"}}
}

func TestConformance(t *testing.T) {
	volumetest.Run(t, volumetest.Harness{Open: func(tb testing.TB, _ string) volumetest.Subject {
		ensure := image.EnsurerFunc(func(context.Context, *v1.Pod, *v1.ImageVolumeSource) error { return nil })
		return volumetest.Subject{
			Plugin:   func() volumemanager.Plugin { return plugin(tb, ensure) },
			Spec:     spec,
			ReadOnly: true,
		}
	}})
}

// TestUpstream138655ImageIsEnsuredOncePerSetUp: the kubelet sent a Pulled event per second and
// volume.
func TestUpstream138655ImageIsEnsuredOncePerSetUp(t *testing.T) {
	n := 0
	p := plugin(t, image.EnsurerFunc(func(_ context.Context, _ *v1.Pod, v *v1.ImageVolumeSource) error {
		assert.Equal(t, "localhost/tools:1", v.Reference)
		n++
		return nil
	}))
	m := mountOf(spec)
	out, err := p.SetUp(t.Context(), m)
	require.NoError(t, err)
	assert.Equal(t, volumemanager.Mounted{ReadOnly: true}, out, "the runtime finds it by itself")
	m.Remount = true
	for range 10 {
		_, err := p.SetUp(t.Context(), m)
		require.NoError(t, err)
	}
	assert.Equal(t, 1, n)
}

// A restart of the agent does not make running pods depend on a registry.
func TestVolumeOfBeforeIsNotPulledAgain(t *testing.T) {
	always := volumemanager.Spec{Volume: &v1.Volume{Name: "tools", VolumeSource: v1.VolumeSource{
		Image: &v1.ImageVolumeSource{Reference: "localhost/tools:1", PullPolicy: v1.PullAlways},
	}}}
	var policies []v1.PullPolicy
	p := plugin(t, image.EnsurerFunc(func(_ context.Context, _ *v1.Pod, v *v1.ImageVolumeSource) error {
		policies = append(policies, v.PullPolicy)
		return nil
	}))
	m := mountOf(always)
	for _, m.Reconstructed = range []bool{false, true, false} {
		_, err := p.SetUp(t.Context(), m)
		require.NoError(t, err)
	}
	assert.Equal(t, []v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent, v1.PullAlways}, policies)
}

func TestErrorsHaveAClassAndNames(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		class error
	}{
		{"plain", errors.New("no such image"), volumemanager.ErrFinal},
		{"classified", volumemanager.Transient(errors.New("away")), volumemanager.ErrTransient},
		{"wrapped", fmt.Errorf("pull: %w", volumemanager.Terminal(errors.New("bad name"))), volumemanager.ErrTerminal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := plugin(t, image.EnsurerFunc(func(context.Context, *v1.Pod, *v1.ImageVolumeSource) error { return tc.err }))
			_, err := p.SetUp(t.Context(), mountOf(spec))
			require.ErrorIs(t, err, tc.class)
			require.ErrorIs(t, err, tc.err)
			require.ErrorContains(t, err, `volume "tools": image "localhost/tools:1"`)
		})
	}
	_, err := image.New(image.Options{})
	require.ErrorContains(t, err, "Options.Images")
}

func Example() {
	plugin, err := image.New(image.Options{Images: image.EnsurerFunc(
		func(_ context.Context, _ *v1.Pod, volume *v1.ImageVolumeSource) error {
			fmt.Println("pull", volume.Reference)
			return nil
		})})
	if err != nil {
		fmt.Println(err)
		return
	}
	mounted, err := plugin.SetUp(context.Background(), mountOf(spec))
	fmt.Println(mounted.ReadOnly, mounted.Path == "", err)
	// Output:
	// pull localhost/tools:1
	// true true <nil>
}
