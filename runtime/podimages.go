// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// podImages makes the images of a pod present during a pass. Containers with the same image share a
// concurrent attempt, so the attempt is a single pull and, for the back-off, a single failure.
type podImages struct {
	k      *imageKeeper
	pod    *v1.Pod
	found  ImageFound         // nil: no calls
	cancel context.CancelFunc // cancels the attempts of prefetch

	mu struct {
		sync.Mutex
		early map[string]*outcome // attempts of prefetch by container, until ensure takes them
		pulls map[string]*outcome // attempts in progress by image
	}
}

// outcome is the future result of an attempt. The fields are written before done is closed.
type outcome struct {
	done    chan struct{}
	id      string
	failure *imageFailure
}

func newOutcome() *outcome { return &outcome{done: make(chan struct{})} }

func (k *imageKeeper) forPass(req *SyncRequest) *podImages {
	i := &podImages{k: k, pod: req.Pod, found: req.ImageFound}
	i.mu.early, i.mu.pulls = make(map[string]*outcome), make(map[string]*outcome)
	return i
}

// prefetch begins the image work for starts while the sandbox is made. Images that must not be
// pulled, or not yet, are left to ensure. Call prefetch once and before ensure. Call join
// afterwards.
func (i *podImages) prefetch(ctx context.Context, starts []Start) {
	ctx, i.cancel = context.WithCancel(ctx)
	for _, s := range starts {
		c := s.Ref.Container(i.pod)
		image, err := NormalizeImage(c.Image)
		if err != nil || c.ImagePullPolicy == v1.PullNever {
			continue
		}
		if at, _ := i.k.backoff.wait(i.pod.UID, image, time.Now()); !at.IsZero() {
			continue
		}
		o := newOutcome()
		i.mu.Lock()
		i.mu.early[c.Name] = o
		i.mu.Unlock()
		go func() {
			defer close(o.done)
			o.id, o.failure = i.find(ctx, wanted{c.Name, image, c.ImagePullPolicy})
		}()
	}
}

// join ends the attempts of prefetch that no ensure has taken. Call join after the last ensure.
func (i *podImages) join() {
	i.cancel()
	i.mu.Lock()
	left := i.mu.early
	i.mu.early = nil
	i.mu.Unlock()
	for _, o := range left {
		<-o.done
	}
}

// ensure makes the image of c present according to its pull policy, and returns the ID. As in the
// kubelet, an unset policy pulls. ctx is the context of prefetch, or derived from it.
func (i *podImages) ensure(ctx context.Context, c *v1.Container) (string, *imageFailure) {
	i.mu.Lock()
	o := i.mu.early[c.Name]
	delete(i.mu.early, c.Name) // a second request inspects the image again
	i.mu.Unlock()
	if o != nil {
		<-o.done
		return o.id, o.failure
	}
	image, err := NormalizeImage(c.Image)
	if err != nil {
		cause := fmt.Errorf("Failed to apply default image tag %q: %w", c.Image, err)
		i.k.event(i.pod, wanted{container: c.Name}, v1.EventTypeWarning, eventInspectFailed, cause.Error())
		return "", &imageFailure{reason: ErrInvalidImageName, cause: cause}
	}
	return i.find(ctx, wanted{c.Name, image, c.ImagePullPolicy})
}

// find makes the image present, and repeats until ImageFound confirms the image.
func (i *podImages) find(ctx context.Context, w wanted) (string, *imageFailure) {
	return keep(ctx, w, i.found, func() (string, *imageFailure) { return i.k.obtain(ctx, i.pod, w, i.pull) })
}

// pull pulls the image for the first container. Containers that ask during the pull get the same
// result, and an event about it.
func (i *podImages) pull(ctx context.Context, pod *v1.Pod, w wanted) (string, *imageFailure) {
	i.mu.Lock()
	o := i.mu.pulls[w.image]
	first := o == nil
	if first {
		o = newOutcome()
		i.mu.pulls[w.image] = o
	}
	i.mu.Unlock()
	if first {
		o.id, o.failure = i.k.pull(ctx, pod, w)
		i.mu.Lock()
		delete(i.mu.pulls, w.image)
		i.mu.Unlock()
		close(o.done)
		return o.id, o.failure
	}
	<-o.done // ends with the same ctx
	switch {
	case o.failure == nil:
		i.k.event(pod, w, v1.EventTypeNormal, eventPulled, imagePresent(w.image))
	case ctx.Err() == nil:
		i.k.failed(pod, w, o.failure)
	}
	return o.id, o.failure
}
