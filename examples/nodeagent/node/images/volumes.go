// SPDX-License-Identifier: Apache-2.0

package images

import (
	"cmp"
	"context"
	"errors"
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/image"
)

// EnsureImage implements image.Ensurer. It pulls the image of a volume as the manager pulls images
// of containers, with the pod's credentials and back-off.
func (m *Images) EnsureImage(ctx context.Context, pod *v1.Pod, vol *v1.ImageVolumeSource) error {
	if _, ok := m.host.Runtime.(runtime.Images); !ok {
		return volumemanager.Terminal(image.ErrUnsupported)
	}
	// The lease of the sync may end before a slow pull does, because a sync limits its waiting
	// time.
	held, err := m.hold(ctx, vol.Reference)
	if err != nil {
		return err
	}
	defer held.release()
	id, err := m.host.Manager.EnsureImage(ctx, runtime.ImageRequest{
		Pod: pod, Image: vol.Reference, Policy: cmp.Or(vol.PullPolicy, v1.PullIfNotPresent), Found: held.found,
	})
	switch {
	case errors.Is(err, runtime.ErrInvalidImageName), errors.Is(err, runtime.ErrUnsupported):
		return volumemanager.Terminal(err)
	case err == nil:
		m.volumes.With(pod.UID, func(ids *map[string]string) {
			next := make(map[string]string, len(*ids)+1)
			maps.Copy(next, *ids)
			next[vol.Reference] = id
			*ids = next
		})
	}
	return err
}

// Mount fills in the mount of an image volume. The runtime resolves the image. If the image of the
// volume was removed after the volume was set up, for example by hand, Mount pulls it again.
func (m *Images) Mount(ctx context.Context, out *runtime.Mount, pod *v1.Pod, at *v1.VolumeMount) error {
	vol := imageVolume(pod, at.Name)
	if vol == nil {
		return errors.New("it has no path")
	}
	ref, err := runtime.NormalizeImage(vol.Reference)
	if err != nil {
		return err
	}
	out.Image, out.ImageSubPath, out.ReadOnly = ref, at.SubPath, true
	images, ok := m.host.Runtime.(runtime.Images)
	if !ok {
		return image.ErrUnsupported
	}
	id, err := images.ImageID(ctx, ref)
	if err != nil || id != "" && m.volumes.Get(pod.UID)[vol.Reference] == id {
		return err
	}
	again := *vol
	if again.PullPolicy == v1.PullAlways {
		again.PullPolicy = v1.PullIfNotPresent // the volume's setup has pulled it already
	}
	return m.EnsureImage(ctx, pod, &again)
}

func imageVolume(pod *v1.Pod, name string) *v1.ImageVolumeSource {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return pod.Spec.Volumes[i].Image
		}
	}
	return nil
}
