// SPDX-License-Identifier: Apache-2.0

package pullsecrets

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/registry"
	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/runtime"
)

// eventFailedToRetrieveImagePullSecret is the kubelet's event reason for missing and unusable
// secrets.
const eventFailedToRetrieveImagePullSecret = "FailedToRetrieveImagePullSecret"

// Source reads secrets. Calls are concurrent, happen during pulls, and end with ctx. The caller
// does not modify the result.
type Source interface {
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Options configures a Keyring.
type Options struct {
	// Secrets reads the imagePullSecrets of pods. Required without File; defaults to none.
	Secrets Source
	// File is the absolute path of a docker config.json with the node's own credentials, which
	// apply to every pod, like the kubelet's /var/lib/kubelet/config.json. The file is read at
	// every pull and may be missing. Defaults to none.
	File string
	// Trouble is called at every pull with the reason why File cannot be used. It must not block.
	// Defaults to no calls.
	Trouble func(error)
	// Events receives Warning FailedToRetrieveImagePullSecret, about the pod, for missing and
	// unusable secrets. Defaults to no events.
	Events runtime.EventRecorder
}

// Keyring finds credentials. Its methods are safe for concurrent use.
type Keyring struct {
	opts Options
}

// New returns a Keyring. An error names the invalid option.
func New(o Options) (*Keyring, error) {
	switch {
	case o.Secrets == nil && o.File == "":
		return nil, errors.New("pullsecrets: Options.Secrets is required without File")
	case o.File != "" && !filepath.IsAbs(o.File):
		return nil, fmt.Errorf("pullsecrets: Options.File %q: want an absolute path", o.File)
	}
	return &Keyring{opts: o}, nil
}

// Find returns the credentials for pulling the image: the pod's own before the node's, and within
// both the likeliest first. Find is a runtime.Keyring. As in the kubelet, a missing or unusable
// secret is an event and is skipped, because the image may be public. The only error is the error
// of ctx.
func (k *Keyring) Find(ctx context.Context, pod *v1.Pod, image string) ([]runtime.ImageAuth, error) {
	where, ok := registry.Of(image)
	if !ok {
		return nil, nil
	}
	own, err := k.ofPod(ctx, pod)
	if err != nil {
		return nil, err
	}
	nodes, err := readFile(k.opts.File)
	if err != nil && k.opts.Trouble != nil {
		k.opts.Trouble(fmt.Errorf("the node's registry credentials: %w", err))
	}
	var auths []runtime.ImageAuth
	for _, entries := range [][]entry{own, nodes} {
		entries = slices.DeleteFunc(entries, func(e entry) bool { return !e.place.Covers(where) })
		sorted.Stable(entries, func(a, b entry) int { return registry.Compare(a.place, b.place) })
		for _, e := range entries {
			if !slices.ContainsFunc(auths, e.equal) {
				auths = append(auths, e.auth)
			}
		}
	}
	return auths, nil
}

// ofPod returns the entries of the pod's own secrets.
func (k *Keyring) ofPod(ctx context.Context, pod *v1.Pod) (entries []entry, err error) {
	var missing []string
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		found, err := k.ofSecret(ctx, pod.Namespace, ref.Name)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			missing = append(missing, ref.Name)
			continue
		}
		entries = append(entries, found...)
	}
	if len(missing) > 0 && k.opts.Events != nil {
		k.opts.Events.Event(podfacts.Reference(pod), v1.EventTypeWarning, eventFailedToRetrieveImagePullSecret, fmt.Sprintf(
			"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(missing, ", ")))
	}
	return entries, nil
}

func (k *Keyring) ofSecret(ctx context.Context, namespace, name string) ([]entry, error) {
	if k.opts.Secrets == nil {
		return nil, errors.New("there are no secrets")
	}
	secret, err := k.opts.Secrets.Secret(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	entries, err := read(secret)
	for i := range entries {
		entries[i].auth.Secret = fmt.Sprintf("%s/%s/%s", namespace, name, secret.UID)
	}
	return entries, err
}
