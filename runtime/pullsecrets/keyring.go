// SPDX-License-Identifier: Apache-2.0

package pullsecrets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// EventFailedToRetrieveImagePullSecret is the kubelet's reason for secrets that are not there, or of no use.
const EventFailedToRetrieveImagePullSecret = "FailedToRetrieveImagePullSecret"

// Source has the secrets. It is called concurrently, during pulls, and heeds ctx. What it returns is not written.
type Source interface {
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// SourceFunc is a func as Source.
type SourceFunc func(ctx context.Context, namespace, name string) (*v1.Secret, error)

// Secret calls f.
func (f SourceFunc) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return f(ctx, namespace, name)
}

// Options are the options of New.
type Options struct {
	// Secrets has the secrets that pods name. Required.
	Secrets Source
	// Events is told of secrets that are not there, or of no use: Warning FailedToRetrieveImagePullSecret, about the
	// pod. Defaults to nobody.
	Events runtime.EventRecorder
}

// Keyring finds credentials. Its methods are safe for concurrent use.
type Keyring struct {
	secrets Source
	events  runtime.EventRecorder
}

// New returns a Keyring. An error names the option that is wrong.
func New(o Options) (*Keyring, error) {
	if o.Secrets == nil {
		return nil, errors.New("pullsecrets: Options.Secrets is required")
	}
	return &Keyring{secrets: o.Secrets, events: o.Events}, nil
}

// Find returns what the pod has for pulling the image, the likeliest first; it fits runtime.Keyring. A secret that is
// not there, or of no use, is told to Events and left out, as in the kubelet: the image may be one that everybody may
// have. The only error is that of ctx.
func (k *Keyring) Find(ctx context.Context, pod *v1.Pod, image string) ([]runtime.ImageAuth, error) {
	where, ok := placeOf(image)
	if !ok || len(pod.Spec.ImagePullSecrets) == 0 {
		return nil, nil
	}
	var entries []entry
	var missing []string
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		secret, err := k.secrets.Secret(ctx, pod.Namespace, ref.Name)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var found []entry
		if err == nil {
			found, err = read(secret)
		}
		if err != nil {
			missing = append(missing, ref.Name)
			continue
		}
		entries = append(entries, found...)
	}
	if len(missing) > 0 && k.events != nil {
		about := &v1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		}
		k.events.Event(about, v1.EventTypeWarning, EventFailedToRetrieveImagePullSecret, fmt.Sprintf(
			"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(missing, ", ")))
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return !e.place.covers(where) })
	slices.SortStableFunc(entries, nearest)
	auths := make([]runtime.ImageAuth, 0, len(entries))
	for _, e := range entries {
		if !slices.Contains(auths, e.auth) {
			auths = append(auths, e.auth)
		}
	}
	return auths, nil
}
