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
		wrapped := &restartable{Source: s, turn: make(chan struct{}, 1), taken: map[types.UID]*takenPod{}}
		wrapped.turn <- struct{}{} // Run releases it
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
		if err := s.inTurn(ctx, func() error { return s.take(pod) }); err != nil {
			return nil, err
		}
		return func() {
			_ = s.inTurn(context.WithoutCancel(ctx), func() error { return s.giveBack(pod.UID) })
		}, nil
	}
	return nil, errNotRestartable
}

// restartable is a source that can withhold a pod for a time.
type restartable struct {
	podconfig.Source
	turn chan struct{} // has a value before Run, and while a change is submitted

	// The holder of the turn owns these fields.
	ctx   context.Context // of Run
	out   podconfig.Sink  // nil after Run
	taken map[types.UID]*takenPod
}

// WrapSource implements node.SourceWrapper.
func (s *restartable) WrapSource(wrap func(podconfig.Source) podconfig.Source) {
	s.Source = wrap(s.Source)
}

// Run implements podconfig.Source.
func (s *restartable) Run(ctx context.Context, out podconfig.Sink) error {
	s.ctx, s.out = ctx, out
	<-s.turn
	defer func() {
		s.turn <- struct{}{}
		s.out = nil
		<-s.turn
	}()
	return s.Source.Run(ctx, s)
}

// inTurn calls do, which may submit changes.
func (s *restartable) inTurn(ctx context.Context, do func() error) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.out == nil {
		return errStopping
	}
	return do()
}

// Submit implements podconfig.Sink for the wrapped source.
func (s *restartable) Submit(ctx context.Context, c podconfig.Change) error {
	return s.inTurn(ctx, func() error { return s.out.Submit(ctx, without(s.taken, c)) })
}

// takenPod is a pod that is withheld until the last of its requests is released.
type takenPod struct {
	pod      *v1.Pod // nil: the source has removed the pod
	requests int
}

// take removes a pod for a request.
func (s *restartable) take(pod *v1.Pod) error {
	held := s.taken[pod.UID]
	if held == nil {
		held = &takenPod{pod: pod}
		s.taken[pod.UID] = held
	}
	held.requests++
	err := s.out.Submit(s.ctx, podconfig.Remove(pod.UID))
	if err != nil {
		_ = s.giveBack(pod.UID) // the first error counts
	}
	return err
}

// giveBack ends a request for a pod. After the last one, the pod is submitted again.
func (s *restartable) giveBack(uid types.UID) error {
	held := s.taken[uid]
	if held.requests--; held.requests > 0 {
		return nil
	}
	delete(s.taken, uid)
	if held.pod == nil {
		return nil
	}
	return s.out.Submit(s.ctx, podconfig.Upsert(held.pod.DeepCopy()))
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
