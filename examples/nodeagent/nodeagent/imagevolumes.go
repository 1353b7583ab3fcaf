// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"cmp"
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/pullsecrets"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/image"
)

// newKeyring finds credentials for images, those of containers and of volumes, in the
// pods' imagePullSecrets, and in the node's file.
func (a *Agent) newKeyring() (runtime.Keyring, error) {
	opts := pullsecrets.Options{File: a.opts.RegistryAuthFile, Events: a.opts.Events, Trouble: func(err error) {
		a.log.Warn("an image is pulled without the node's credentials", zap.Error(err))
	}}
	switch {
	case a.opts.Objects != nil:
		opts.Secrets = a.opts.Objects
	case opts.File == "":
		return nil, nil
	}
	keyring, err := pullsecrets.New(opts)
	if err != nil {
		return nil, err
	}
	return keyring.Find, nil
}

// volumeImages are the images that the pods' volumes have turned out to be. They
// are in use from then on, whatever becomes of their tags, and before a container
// has them mounted.
type volumeImages struct {
	mu struct {
		sync.Mutex
		byPod map[types.UID]map[string]string // ID by reference
	}
}

func newVolumeImages() *volumeImages {
	v := &volumeImages{}
	v.mu.byPod = make(map[types.UID]map[string]string)
	return v
}

func (v *volumeImages) note(uid types.UID, reference, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.byPod[uid] == nil {
		v.mu.byPod[uid] = make(map[string]string)
	}
	v.mu.byPod[uid][reference] = id
}

// is reports whether a reference of the pod is known to be this image.
func (v *volumeImages) is(uid types.UID, reference, id string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return id != "" && v.mu.byPod[uid][reference] == id
}

// inUse names the images of these pods' volumes; what is known of others is
// dropped: their volumes are gone, or are what the runtime has mounted.
func (v *volumeImages) inUse(pods []*v1.Pod) (names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := make(map[types.UID]map[string]string, len(v.mu.byPod))
	for _, pod := range pods {
		for i := range pod.Spec.Volumes {
			if image := pod.Spec.Volumes[i].Image; image != nil && image.Reference != "" {
				names = append(names, image.Reference)
			}
		}
		ids, ok := v.mu.byPod[pod.UID]
		if !ok {
			continue
		}
		known[pod.UID] = ids
		for _, id := range ids {
			names = append(names, id)
		}
	}
	v.mu.byPod = known
	return names
}

// ensureImage has the image of a volume on the node, as the manager has those of
// containers: with the pod's credentials and back-off.
func (a *Agent) ensureImage(ctx context.Context, pod *v1.Pod, vol *v1.ImageVolumeSource) error {
	if _, ok := a.runtime.(runtime.Images); !ok {
		return volumemanager.Terminal(image.ErrUnsupported)
	}
	// The pod's own lease may be over by the time that a slow pull is: a sync does
	// not wait for ever.
	held, err := a.holdImages(ctx, vol.Reference)
	if err != nil {
		return err
	}
	defer held.release()
	id, err := a.manager.EnsureImage(ctx, runtime.ImageRequest{
		Pod: pod, Image: vol.Reference, Policy: cmp.Or(vol.PullPolicy, v1.PullIfNotPresent), Found: held.found,
	})
	switch {
	case errors.Is(err, runtime.ErrInvalidImageName), errors.Is(err, runtime.ErrUnsupported):
		return volumemanager.Terminal(err)
	case err == nil:
		a.volumeImages.note(pod.UID, vol.Reference, id)
	}
	return err
}

// asImage makes out the mount of an image, which the runtime finds by itself. One
// that was there when the volume was set up may have been removed since, by hand
// say: then it is pulled again.
func (a *Agent) asImage(ctx context.Context, out *runtime.Mount, pod *v1.Pod, m *v1.VolumeMount) error {
	vol := imageVolume(pod, m.Name)
	if vol == nil {
		return errors.New("it has no path")
	}
	ref, err := runtime.NormalizeImage(vol.Reference)
	if err != nil {
		return err
	}
	out.Image, out.ImageSubPath, out.ReadOnly = ref, m.SubPath, true
	images, ok := a.runtime.(runtime.Images)
	if !ok {
		return image.ErrUnsupported
	}
	id, err := images.ImageID(ctx, ref)
	if err != nil || a.volumeImages.is(pod.UID, vol.Reference, id) {
		return err
	}
	again := *vol
	if again.PullPolicy == v1.PullAlways {
		again.PullPolicy = v1.PullIfNotPresent // it was pulled when the volume was set up
	}
	return a.ensureImage(ctx, pod, &again)
}

func imageVolume(pod *v1.Pod, name string) *v1.ImageVolumeSource {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return pod.Spec.Volumes[i].Image
		}
	}
	return nil
}
