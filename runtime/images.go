// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/conceal"
	"github.com/keelson-dev/keelson/internal/keylock"
)

// Reasons of a missing image. The texts are the API's waiting reasons.
var (
	ErrInvalidImageName          = errors.New("InvalidImageName")
	errImageInspect              = errors.New("ImageInspectError")
	errImageNeverPull            = errors.New("ErrImageNeverPull")
	ErrImagePull                 = errors.New("ErrImagePull")
	ErrImagePullBackOff          = errors.New("ImagePullBackOff")
	ErrRegistryUnavailable       = errors.New("RegistryUnavailable")
	ErrSignatureValidationFailed = errors.New("SignatureValidationFailed")
)

// Event reasons about images, in the kubelet's words.
const (
	eventPulling           = "Pulling"
	eventPulled            = "Pulled"
	eventPullProgress      = "PullProgress" // unknown to the kubelet
	eventInspectFailed     = "InspectFailed"
	eventErrImageNeverPull = "ErrImageNeverPull"
)

// Keyring returns credentials for pulling an image for a pod, the likeliest first. Without
// credentials the pull is anonymous. An error stops the pull only if the Keyring returns no
// credentials.
type Keyring func(ctx context.Context, pod *v1.Pod, image string) ([]ImageAuth, error)

// PullRecords decides which pods may use an image that is on the node, from the credentials of earlier pulls. Package
// pullrecords implements it. Calls are concurrent.
type PullRecords interface {
	// MayUse reports whether a pod with these credentials may use an image without a pull. credentials returns what
	// the Keyring finds for the pod and the image.
	MayUse(image, id string, credentials func() []ImageAuth) (bool, error)
	// Begin is called before each pull, with the ID of the image that has the name, or "". An error prevents the pull.
	// end is called once, with the ID and the credentials of a successful pull, nil for none, or with the error of the
	// pull. An error of end is an error of the pull.
	Begin(image, before string) (end func(id string, auth *ImageAuth, err error) error, err error)
}

// imageFailure is a failure to make an image present. reason is ErrInvalidImageName or one of the
// variables after it.
type imageFailure struct {
	reason, cause error
	retryAt       time.Time // an earlier try is pointless; zero: a try is possible at once
}

func (f *imageFailure) Error() string { return fmt.Sprintf("%v: %v", f.reason, f.cause) }

// Unwrap returns the reason and the cause.
func (f *imageFailure) Unwrap() []error { return []error{f.reason, f.cause} }

// wanted is a request for an image.
type wanted struct {
	container string // its name; "" for the pod as a whole
	image     string // normalized
	policy    v1.PullPolicy
}

// imageKeeper makes images present for a Manager.
type imageKeeper struct {
	m        *Manager
	images   Images
	keyring  Keyring
	records  PullRecords // nil: each pod may use each image
	flights  *flights
	backoff  *pullBackoff
	attempts keylock.Locks[attempt] // outside of passes
}

// inspect returns the ID of an image on the node, or "", and whether the pod may use it without a pull.
func (k *imageKeeper) inspect(ctx context.Context, pod *v1.Pod, w wanted) (id string, usable bool, failure *imageFailure) {
	id, err := k.images.ImageID(ctx, w.image)
	if usable = id != ""; err == nil && usable && k.records != nil {
		usable, err = k.records.MayUse(w.image, id, func() []ImageAuth {
			auths, _ := k.credentials(ctx, pod, w.image) // without credentials a pull says why
			return auths
		})
	}
	if err != nil {
		if ctx.Err() == nil {
			k.event(pod, w, v1.EventTypeWarning, eventInspectFailed, fmt.Sprintf("Failed to inspect image %q: %v", w.image, err))
		}
		return "", false, &imageFailure{reason: errImageInspect, cause: fmt.Errorf("inspect image %q: %w", w.image, err)}
	}
	if usable {
		k.event(pod, w, v1.EventTypeNormal, eventPulled, imagePresent(w.image))
	}
	return id, usable, nil
}

// pull fetches an image, unless the back-off of an earlier failure has not ended.
func (k *imageKeeper) pull(ctx context.Context, pod *v1.Pod, w wanted) (string, *imageFailure) {
	if at, last := k.backoff.wait(pod.UID, w.image, time.Now()); !at.IsZero() {
		cause := fmt.Errorf("Back-off pulling image %q: %v: %w", w.image, pullReason(last), last)
		failure := &imageFailure{reason: ErrImagePullBackOff, cause: cause, retryAt: at}
		k.failed(pod, w, failure)
		return "", failure
	}
	k.event(pod, w, v1.EventTypeNormal, eventPulling, fmt.Sprintf("Pulling image %q", w.image))
	asked := time.Now()
	stop := k.reportProgress(ctx, pod, w)
	id, took, err := k.fetch(ctx, pod, w.image)
	stop()
	switch {
	case err == nil:
		k.backoff.succeeded(pod.UID, w.image)
		k.event(pod, w, v1.EventTypeNormal, eventPulled, k.pulled(ctx, w.image, id, took, time.Since(asked)))
		return id, nil
	case ctx.Err() != nil:
		return "", &imageFailure{reason: ErrImagePull, cause: context.Cause(ctx)}
	}
	k.backoff.failed(pod.UID, w.image, err, time.Now())
	failure := &imageFailure{reason: pullReason(err), cause: fmt.Errorf("pull image %q: %w", w.image, err)}
	k.failed(pod, w, failure)
	return "", failure
}

// pullReason returns the reason of a failed pull.
func pullReason(err error) error {
	for _, known := range []error{ErrRegistryUnavailable, ErrSignatureValidationFailed} {
		if errors.Is(err, known) {
			return known
		}
	}
	return ErrImagePull
}

// imagePresent returns the message of the event about an image that need not be pulled.
func imagePresent(image string) string {
	return fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", image)
}

// credentials returns the credentials of a pod for an image.
func (k *imageKeeper) credentials(ctx context.Context, pod *v1.Pod, image string) ([]ImageAuth, error) {
	if k.keyring == nil {
		return nil, nil
	}
	auths, err := k.keyring(ctx, pod, image)
	if err != nil && len(auths) == 0 {
		return nil, fmt.Errorf("find credentials: %w", err)
	}
	return auths, nil
}

// fetch pulls an image and records the pull. took is the time of the successful pull.
func (k *imageKeeper) fetch(ctx context.Context, pod *v1.Pod, image string) (id string, took time.Duration, err error) {
	auths, err := k.credentials(ctx, pod, image)
	if err != nil {
		return "", 0, err
	}
	if k.records == nil {
		id, took, _, err = k.fetchWith(ctx, image, auths)
		return id, took, err
	}
	before, _ := k.images.ImageID(ctx, image) // without an answer, the image counts as new
	end, err := k.records.Begin(image, before)
	if err != nil {
		return "", 0, err
	}
	id, took, auth, err := k.fetchWith(ctx, image, auths)
	known, _ := k.images.ImageID(ctx, image) // of some runtimes, another ID than that of the pull
	failure := err
	if ctx.Err() != nil {
		failure = ctx.Err()
	}
	if ended := end(cmp.Or(known, id), auth, failure); err == nil {
		err = ended
	}
	return id, took, err
}

// fetchWith tries the credentials one after the other until a pull succeeds, and returns those of the successful pull.
// Pods with the same image and the same credentials share a download.
func (k *imageKeeper) fetchWith(ctx context.Context, image string, auths []ImageAuth) (id string, took time.Duration, used *ImageAuth, err error) {
	if len(auths) == 0 {
		id, took, err = k.flights.do(ctx, flight{image: image}, func(ctx context.Context) (string, error) {
			return k.images.PullImage(ctx, image, nil)
		})
		return id, took, nil, err
	}
	var errs []error
	for i := range auths {
		auth := auths[i]
		auth.Secret = "" // equal credentials of two Secrets share a download
		id, took, err := k.flights.do(ctx, flight{image, auth}, func(ctx context.Context) (string, error) {
			return k.images.PullImage(ctx, image, &auth)
		})
		if err == nil || ctx.Err() != nil {
			return id, took, &auths[i], err
		}
		errs = append(errs, auth.secrets().Error(err))
	}
	return "", 0, nil, errors.Join(errs...)
}

// secrets returns the credentials that no error may show. Registries and runtimes repeat
// credentials in errors, also in the form of the HTTP header.
func (a *ImageAuth) secrets() *conceal.Values {
	basic := base64.StdEncoding.EncodeToString([]byte(a.Username + ":" + a.Password))
	secrets := &conceal.Values{}
	for _, value := range []string{basic, a.Auth, a.Password, a.IdentityToken, a.RegistryToken} {
		secrets.Secret(value)
	}
	return secrets
}

// failed reports a failed pull for w as an event.
func (k *imageKeeper) failed(pod *v1.Pod, w wanted, f *imageFailure) {
	if f.reason == ErrImagePullBackOff {
		k.event(pod, w, v1.EventTypeNormal, eventBackOff, fmt.Sprintf("Back-off pulling image %q", w.image))
		return
	}
	k.event(pod, w, v1.EventTypeWarning, eventFailed, "Failed to "+f.cause.Error())
}

func (k *imageKeeper) event(pod *v1.Pod, w wanted, eventType, reason, message string) {
	if w.container == "" {
		k.m.podEvent(pod, eventType, reason, message)
		return
	}
	k.m.containerEvent(pod, w.container, eventType, reason, message)
}

// forget deletes the back-off of an ended pod.
func (k *imageKeeper) forget(uid types.UID) { k.backoff.forget(uid) }
