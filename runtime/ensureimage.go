// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ImageFound is told which image a reference turned out to be, by its ID, before
// anything uses it, and says whether it is here and stays: what collects images
// may have removed it since it was looked for. After a false the image is looked
// for, and pulled, anew. It may wait for as long as ctx allows; its error is the
// image's (errImageInspect). It is called concurrently. imagegc's Lease.Resolved
// is made for it.
type ImageFound func(ctx context.Context, image, id string) (bool, error)

// ImageRequest is an image that is wanted for something else than to run it: a
// volume.
type ImageRequest struct {
	// Pod is whose it is: its credentials are used, its back-off counts, and
	// events are about it. Required; never written.
	Pod *v1.Pod
	// Image is a reference as in a manifest. Required.
	Image string
	// Policy says whether to look first, and whether to pull. An unset one pulls.
	Policy v1.PullPolicy
	// Found is told of the image. Defaults to nobody.
	Found ImageFound
}

// EnsureImage makes an image present as the policy says, and returns its ID. It
// is for images of volumes; those of containers SyncPod sees to. Both share
// credentials, the bound on parallel pulls, downloads of the same image that are
// under way, and per pod the back-off. It may be called concurrently, also for
// one pod and image: the calls are then made one after the other.
//
// The error wraps a reason and its cause. The reason is one of ErrInvalidImageName and those that
// follow it, or ErrUnsupported if the runtime has no images. If ctx has ended, the error is its
// cause.
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
	done, err := k.attempts.take(ctx, attempt{req.Pod.UID, image})
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

// obtain looks for the image where the policy says so, and pulls it where it says
// so.
func (k *imageKeeper) obtain(
	ctx context.Context, pod *v1.Pod, w wanted, pull func(context.Context, *v1.Pod, wanted) (string, *imageFailure),
) (string, *imageFailure) {
	if w.policy == v1.PullIfNotPresent || w.policy == v1.PullNever {
		if id, failure := k.inspect(ctx, pod, w); failure != nil || id != "" {
			return id, failure
		}
	}
	if w.policy == v1.PullNever {
		k.event(pod, w, v1.EventTypeWarning, eventErrImageNeverPull, fmt.Sprintf("Container image %q is not present with pull policy of Never", w.image))
		return "", &imageFailure{reason: errImageNeverPull, cause: fmt.Errorf("image %q is not present, and its pull policy is Never", w.image)}
	}
	return pull(ctx, pod, w)
}

// maxLosses is how often an image may go while it is being obtained. Once is
// possible: whoever was told of it keeps it from then on.
const maxLosses = 4

// errImageLost says that an image is removed as often as it is pulled.
var errImageLost = errors.New("it is removed again and again")

// keep obtains an image until found says that it stays.
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

// attempt is one pod's at one image. Those outside a pass are made one after the
// other, so that one failure is one for the back-off.
type attempt struct {
	pod   types.UID
	image string
}

type attempts struct {
	mu struct {
		sync.Mutex
		taken map[attempt]chan struct{} // closed when it is over
	}
}

// take waits until nobody else is at it; done ends the attempt.
func (t *attempts) take(ctx context.Context, key attempt) (done func(), err error) {
	for {
		t.mu.Lock()
		busy := t.mu.taken[key]
		if busy == nil {
			over := make(chan struct{})
			if t.mu.taken == nil {
				t.mu.taken = make(map[attempt]chan struct{})
			}
			t.mu.taken[key] = over
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.mu.taken, key)
				t.mu.Unlock()
				close(over)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
