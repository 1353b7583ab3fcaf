// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// podImages sees to the images of one pod during one pass. Containers that want
// the same image at the same time share the attempt, so that one attempt is one
// pull, and one failure for the back-off.
type podImages struct {
	k      *imageKeeper
	pod    *v1.Pod
	found  ImageFound         // nil: nobody wants to know
	cancel context.CancelFunc // of what prefetch began

	mu struct {
		sync.Mutex
		early map[string]*outcome // what prefetch began, by container, until it is asked for
		pulls map[string]*outcome // under way, by image
	}
}

// outcome is what will have come of an image. Its fields are written before done
// is closed.
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

// prefetch begins with what starts will ask ensure for, while the sandbox is
// made. What must not be pulled, or not yet, is left for then. It is called once,
// before ensure; join must follow.
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

// join ends what prefetch began and nobody asked for. It is called after the last
// ensure.
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

// ensure makes c's image present, as its pull policy says, and returns its ID.
// The policy is the kubelet's: an unset one pulls. ctx is the one of prefetch, or
// comes from it.
func (i *podImages) ensure(ctx context.Context, c *v1.Container) (string, *imageFailure) {
	i.mu.Lock()
	o := i.mu.early[c.Name]
	delete(i.mu.early, c.Name) // who asks again wants to have it looked after again
	i.mu.Unlock()
	if o != nil {
		<-o.done
		return o.id, o.failure
	}
	image, err := NormalizeImage(c.Image)
	if err != nil {
		i.k.event(i.pod, wanted{container: c.Name}, v1.EventTypeWarning, eventInspectFailed, "Failed to apply default image tag: "+err.Error())
		return "", &imageFailure{reason: ErrInvalidImageName, cause: err}
	}
	return i.find(ctx, wanted{c.Name, image, c.ImagePullPolicy})
}

// find has the image here, and kept: until who was told of it says that it is.
func (i *podImages) find(ctx context.Context, w wanted) (string, *imageFailure) {
	return keep(ctx, w, i.found, func() (string, *imageFailure) { return i.k.obtain(ctx, i.pod, w, i.pull) })
}

// pull pulls the image for the first container that asks; those who ask meanwhile
// get what comes of it, and an event that says so.
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
	<-o.done // it heeds the same ctx
	switch {
	case o.failure == nil:
		i.k.event(pod, w, v1.EventTypeNormal, eventPulled, fmt.Sprintf("Container image %q already present on machine", w.image))
	case ctx.Err() == nil:
		i.k.failed(pod, w, o.failure)
	}
	return o.id, o.failure
}
