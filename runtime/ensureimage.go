// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ImageFound is called with the ID of the image that a reference resolved to, before the image is
// used. The result reports whether the image is present and stays: a collector may have removed the
// image since the inspection. After false, the image is inspected and pulled again. ImageFound may
// wait until ctx ends. Its error becomes the error of the image (errImageInspect). Calls are
// concurrent. imagegc's Lease.Resolved fits.
type ImageFound func(ctx context.Context, image, id string) (bool, error)

// ImageRequest is a request for an image of a volume.
type ImageRequest struct {
	// Pod is the pod of the volume: its credentials are used, its back-off applies, and events
	// refer to the pod. Required; never written.
	Pod *v1.Pod
	// Image is a reference as in a manifest. Required.
	Image string
	// Policy decides whether to inspect first, and whether to pull. An unset policy pulls.
	Policy v1.PullPolicy
	// Found is called with the image. Defaults to no calls.
	Found ImageFound
}

// EnsureImage makes an image present according to the policy, and returns its ID. Use EnsureImage
// for images of volumes. SyncPod handles the images of containers. Both share the credentials, the
// bound on parallel pulls, the downloads in progress, and the back-off of the pod. Concurrent calls
// are safe. Calls for the same pod and image run one after the other.
//
// The error wraps a reason and its cause. The reason is ErrInvalidImageName or one of the variables
// after it, or ErrUnsupported if the runtime does not implement Images. After the end of ctx the
// error is the cause of ctx.
func (m *Manager) EnsureImage(ctx context.Context, req ImageRequest) (id string, err error) {
	if m.images == nil {
		return "", fmt.Errorf("image %q: the runtime has no images: %w", req.Image, ErrUnsupported)
	}
	return m.images.forVolume(ctx, req)
}

func (k *imageKeeper) forVolume(ctx context.Context, req ImageRequest) (string, error) {
	image, err := NormalizeImage(req.Image)
	if err != nil {
		k.event(req.Pod, wanted{}, v1.EventTypeWarning, eventInspectFailed, "Failed to apply default image tag: "+err.Error())
		return "", &imageFailure{reason: ErrInvalidImageName, cause: err}
	}
	done, err := k.attempts.Lock(ctx, attempt{req.Pod.UID, image})
	if err != nil {
		return "", err
	}
	defer done()
	w := wanted{image: image, policy: req.Policy}
	id, failure := keep(ctx, w, req.Found, func() (string, *imageFailure) { return k.obtain(ctx, req.Pod, w, k.pull) })
	switch {
	case failure == nil:
		return id, nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	return "", failure
}

// obtain inspects the image and pulls it, as the policy requires.
func (k *imageKeeper) obtain(
	ctx context.Context, pod *v1.Pod, w wanted, pull func(context.Context, *v1.Pod, wanted) (string, *imageFailure),
) (string, *imageFailure) {
	id := ""
	if w.policy == v1.PullIfNotPresent || w.policy == v1.PullNever {
		found, usable, failure := k.inspect(ctx, pod, w)
		if failure != nil || usable {
			return found, failure
		}
		id = found
	}
	if w.policy == v1.PullNever {
		cause := fmt.Errorf("Container image %q is not present with pull policy of Never", w.image)
		if id != "" {
			cause = fmt.Errorf("Container image %q is present with pull policy of Never, but the pod does not have the credentials of a pull of it", w.image)
		}
		k.event(pod, w, v1.EventTypeWarning, eventErrImageNeverPull, cause.Error())
		return "", &imageFailure{reason: errImageNeverPull, cause: cause}
	}
	return pull(ctx, pod, w)
}

// maxLosses is the number of times that an image may disappear while it is obtained. One loss is
// possible in normal operation: after a call of ImageFound the caller protects the image.
const maxLosses = 4

// errImageLost: the image is removed after every pull.
var errImageLost = errors.New("it is removed again and again")

// keep obtains an image until found confirms that the image stays.
func keep(ctx context.Context, w wanted, found ImageFound, obtain func() (string, *imageFailure)) (string, *imageFailure) {
	for range maxLosses {
		id, failure := obtain()
		if failure != nil || found == nil {
			return id, failure
		}
		stays, err := found(ctx, w.image, id)
		if err != nil {
			return "", &imageFailure{reason: errImageInspect, cause: fmt.Errorf("keep image %q: %w", w.image, err)}
		}
		if stays {
			return id, nil
		}
	}
	return "", &imageFailure{reason: ErrImagePull, cause: fmt.Errorf("image %q: %w", w.image, errImageLost)}
}

// attempt identifies an attempt of a pod at an image. Equal attempts outside of passes run one
// after the other, so that a failure counts once for the back-off.
type attempt struct {
	pod   types.UID
	image string
}
