// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Why an image is not there. The texts are the API's waiting reasons.
var (
	ErrInvalidImageName          = errors.New("InvalidImageName")
	ErrImageInspect              = errors.New("ImageInspectError")
	ErrImageNeverPull            = errors.New("ErrImageNeverPull")
	ErrImagePull                 = errors.New("ErrImagePull")
	ErrImagePullBackOff          = errors.New("ImagePullBackOff")
	ErrRegistryUnavailable       = errors.New("RegistryUnavailable")
	ErrSignatureValidationFailed = errors.New("SignatureValidationFailed")
)

// Event reasons about images, with the kubelet's words.
const (
	EventPulling           = "Pulling"
	EventPulled            = "Pulled"
	EventInspectFailed     = "InspectFailed"
	EventErrImageNeverPull = "ErrImageNeverPull"
)

// Keyring finds credentials for pulling an image for a pod, the likeliest
// first. None means an anonymous pull. Its errors do not stop the pull if it
// returns credentials as well.
type Keyring func(ctx context.Context, pod *v1.Pod, image string) ([]ImageAuth, error)

// imageFailure is why a container's image is not there.
type imageFailure struct {
	reason, cause error
	retryAt       time.Time
}

// imageKeeper sees to it that images are there. It is the manager's.
type imageKeeper struct {
	m       *Manager
	images  Images
	keyring Keyring
	flights *flights
	backoff *pullBackoff
}

// ensure makes c's image present, as its pull policy says, and returns its ID.
// The policy is the kubelet's: an unset one pulls.
func (k *imageKeeper) ensure(ctx context.Context, pod *v1.Pod, c *v1.Container) (string, *imageFailure) {
	image, err := NormalizeImage(c.Image)
	if err != nil {
		k.event(pod, c, v1.EventTypeWarning, EventInspectFailed, "Failed to apply default image tag: "+err.Error())
		return "", &imageFailure{reason: ErrInvalidImageName, cause: err}
	}
	if c.ImagePullPolicy == v1.PullIfNotPresent || c.ImagePullPolicy == v1.PullNever {
		id, err := k.images.ImageID(ctx, image)
		switch {
		case err != nil:
			k.event(pod, c, v1.EventTypeWarning, EventInspectFailed, fmt.Sprintf("Failed to inspect image %q: %v", image, err))
			return "", &imageFailure{reason: ErrImageInspect, cause: fmt.Errorf("inspect image %q: %w", image, err)}
		case id != "":
			k.event(pod, c, v1.EventTypeNormal, EventPulled, fmt.Sprintf("Container image %q already present on machine", image))
			return id, nil
		case c.ImagePullPolicy == v1.PullNever:
			k.event(pod, c, v1.EventTypeWarning, EventErrImageNeverPull, fmt.Sprintf("Container image %q is not present with pull policy of Never", image))
			return "", &imageFailure{reason: ErrImageNeverPull, cause: fmt.Errorf("image %q is not present, and its pull policy is Never", image)}
		}
	}
	return k.pull(ctx, pod, c, image)
}

// pull fetches an image, unless an earlier failure is too fresh.
func (k *imageKeeper) pull(ctx context.Context, pod *v1.Pod, c *v1.Container, image string) (string, *imageFailure) {
	if at, last := k.backoff.wait(pod.UID, image, time.Now()); !at.IsZero() {
		cause := fmt.Errorf("back-off pulling image %q: %w", image, last)
		k.event(pod, c, v1.EventTypeNormal, EventBackOff, cause.Error())
		return "", &imageFailure{reason: ErrImagePullBackOff, cause: cause, retryAt: at}
	}
	k.event(pod, c, v1.EventTypeNormal, EventPulling, fmt.Sprintf("Pulling image %q", image))
	began := time.Now()
	id, err := k.fetch(ctx, pod, image)
	switch {
	case err == nil:
		k.backoff.succeeded(pod.UID, image)
		k.event(pod, c, v1.EventTypeNormal, EventPulled, fmt.Sprintf("Successfully pulled image %q in %s", image, time.Since(began).Round(time.Millisecond)))
		return id, nil
	case ctx.Err() != nil:
		return "", &imageFailure{reason: ErrImagePull, cause: context.Cause(ctx)}
	}
	k.backoff.failed(pod.UID, image, err, time.Now())
	k.event(pod, c, v1.EventTypeWarning, EventFailed, fmt.Sprintf("Failed to pull image %q: %v", image, err))
	reason := ErrImagePull
	for _, known := range []error{ErrRegistryUnavailable, ErrSignatureValidationFailed} {
		if errors.Is(err, known) {
			reason = known
		}
	}
	return "", &imageFailure{reason: reason, cause: fmt.Errorf("pull image %q: %w", image, err)}
}

// fetch tries the credentials one after the other; the first that works wins.
// Pods that want the same image with the same credentials share one download.
func (k *imageKeeper) fetch(ctx context.Context, pod *v1.Pod, image string) (string, error) {
	var auths []ImageAuth
	if k.keyring != nil {
		var err error
		if auths, err = k.keyring(ctx, pod, image); err != nil && len(auths) == 0 {
			return "", fmt.Errorf("find credentials: %w", err)
		}
	}
	if len(auths) == 0 {
		return k.flights.do(ctx, flight{image: image}, func(ctx context.Context) (string, error) {
			return k.images.PullImage(ctx, image, nil)
		})
	}
	var errs []error
	for i := range auths {
		auth := auths[i]
		id, err := k.flights.do(ctx, flight{image, auth}, func(ctx context.Context) (string, error) {
			return k.images.PullImage(ctx, image, &auth)
		})
		if err == nil || ctx.Err() != nil {
			return id, err
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// prefetch begins to pull what the containers of a plan need while the sandbox
// is made. What comes of it is found out when they start.
func (k *imageKeeper) prefetch(ctx context.Context, pod *v1.Pod, starts []Start) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{}, len(starts))
	n := 0
	seen := make(map[string]bool)
	for _, s := range starts {
		c := s.Ref.Container(pod)
		image, err := NormalizeImage(c.Image)
		if err != nil || seen[image] || c.ImagePullPolicy == v1.PullNever {
			continue
		}
		seen[image] = true
		if at, _ := k.backoff.wait(pod.UID, image, time.Now()); !at.IsZero() {
			continue
		}
		n++
		go func() {
			defer func() { done <- struct{}{} }()
			if id, err := k.images.ImageID(ctx, image); err != nil || id != "" {
				return
			}
			_, _ = k.fetch(ctx, pod, image)
		}()
	}
	return func() {
		cancel()
		for range n {
			<-done
		}
	}
}

func (k *imageKeeper) event(pod *v1.Pod, c *v1.Container, eventType, reason, message string) {
	k.m.containerEvent(pod, c.Name, eventType, reason, message)
}

// forget drops what is remembered of a pod that is over.
func (k *imageKeeper) forget(uid types.UID) { k.backoff.forget(uid) }
