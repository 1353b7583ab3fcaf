// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// Restarts restarts pods of sources: a pod is removed from its source, and submitted again after its
// end. The zero value is ready.
type Restarts struct {
	mu struct {
		sync.Mutex
		sources []*restartable
	}
}

// Sources returns the wrapped sources, which can restart pods. Pods of an API server cannot be
// restarted: delete such a pod on the API server.
func (r *Restarts) Sources(sources ...podconfig.Source) (all []podconfig.Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range sources {
		if s == nil || s.Name() == podconfig.SourceAPI {
			all = append(all, s)
			continue
		}
		wrapped := &restartable{Source: s, requests: make(chan request), changes: make(chan submitted), stopped: make(chan struct{})}
		r.mu.sources = append(r.mu.sources, wrapped)
		all = append(all, wrapped)
	}
	return all
}

// errNotRestartable means a pod that no source of Restarts has listed.
var errNotRestartable = errors.New("the pod is not from a folder or URL of this node")

// errStopping means that the node agent is stopping.
var errStopping = errors.New("the node agent is stopping")

// take removes a pod from its source. When the caller calls release, the source submits the pod again,
// with its newest content. pod is the desired pod.
func (r *Restarts) take(ctx context.Context, pod *v1.Pod) (release func(), err error) {
	r.mu.Lock()
	sources := r.mu.sources
	r.mu.Unlock()
	for _, s := range sources {
		if s.Name() != pod.Annotations["kubernetes.io/config.source"] {
			continue
		}
		if err := s.ask(ctx, request{pod: pod}); err != nil {
			return nil, err
		}
		return func() { _ = s.ask(context.WithoutCancel(ctx), request{pod: pod, release: true}) }, nil
	}
	return nil, errNotRestartable
}

// restartable is a source that can withhold a pod for a time.
type restartable struct {
	podconfig.Source
	requests chan request
	changes  chan submitted
	stopped  chan struct{} // closed at the end of Run
}

// WrapSource implements node.SourceWrapper.
func (s *restartable) WrapSource(wrap func(podconfig.Source) podconfig.Source) {
	s.Source = wrap(s.Source)
}

// request takes or releases a pod.
type request struct {
	pod     *v1.Pod
	release bool
	done    chan error
}

// submitted is a change of the source, and the place for the error of Submit.
type submitted struct {
	podconfig.Change
	done chan error
}

func (s *restartable) ask(ctx context.Context, r request) error {
	r.done = make(chan error, 1)
	select {
	case s.requests <- r:
		return <-r.done
	case <-s.stopped:
		return errStopping
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Submit implements podconfig.Sink for the wrapped source.
func (s *restartable) Submit(ctx context.Context, c podconfig.Change) error {
	change := submitted{c, make(chan error, 1)}
	select {
	case s.changes <- change:
		return <-change.done
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run implements podconfig.Source.
func (s *restartable) Run(ctx context.Context, out podconfig.Sink) error {
	defer close(s.stopped)
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Source.Run(inner, s) }() // joined below
	taken := map[types.UID]*takenPod{}
	for {
		select {
		case c := <-s.changes:
			c.done <- out.Submit(ctx, without(taken, c.Change))
		case r := <-s.requests:
			if r.release {
				r.done <- s.giveBack(ctx, out, taken, r.pod.UID)
				continue
			}
			held := taken[r.pod.UID]
			if held == nil {
				held = &takenPod{pod: r.pod}
				taken[r.pod.UID] = held
			}
			held.requests++
			err := out.Submit(ctx, podconfig.Remove(r.pod.UID))
			if err != nil {
				_ = s.giveBack(ctx, out, taken, r.pod.UID) // the first error counts
			}
			r.done <- err
		case err := <-ended:
			return err
		}
	}
}

// takenPod is a pod that is withheld until the last of its requests is released.
type takenPod struct {
	pod      *v1.Pod // nil: the source has removed the pod
	requests int
}

// giveBack ends a request for a pod. After the last one, the pod is submitted again.
func (s *restartable) giveBack(ctx context.Context, out podconfig.Sink, taken map[types.UID]*takenPod, uid types.UID) error {
	held := taken[uid]
	if held.requests--; held.requests > 0 {
		return nil
	}
	delete(taken, uid)
	if held.pod == nil {
		return nil
	}
	return out.Submit(ctx, podconfig.Upsert(held.pod.DeepCopy()))
}

// without returns a change without the taken pods, and keeps their newest content.
func without(taken map[types.UID]*takenPod, c podconfig.Change) podconfig.Change {
	if len(taken) == 0 {
		return c
	}
	var pods []*v1.Pod
	listed := map[types.UID]bool{}
	for _, pod := range c.Pods() {
		listed[pod.UID] = true
		if held := taken[pod.UID]; held != nil {
			held.pod = pod.DeepCopy()
		} else {
			pods = append(pods, pod)
		}
	}
	switch c.Kind() {
	case podconfig.ChangeSnapshot:
		for uid, held := range taken {
			if !listed[uid] {
				held.pod = nil
			}
		}
		return podconfig.Snapshot(pods...)
	case podconfig.ChangeRemove:
		for _, uid := range c.UIDs() {
			if held := taken[uid]; held != nil {
				held.pod = nil
			}
		}
		return c
	}
	return podconfig.Upsert(pods...)
}
