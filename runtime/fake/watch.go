// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"errors"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/signal"
)

var errWatched = errors.New("the backend has a watcher already")

// stream is a Watch under way. All fields except wake are guarded by World.mu.
type stream struct {
	dirty []types.UID            // in the order of the first hint
	known map[types.UID]struct{} // the UIDs in dirty
	wake  signal.Signal
	err   error // the stream broke
}

func (s *stream) add(uid types.UID) {
	if _, ok := s.known[uid]; !ok {
		s.known[uid] = struct{}{}
		s.dirty = append(s.dirty, uid)
	}
}

// Watch implements runtime.Watcher. Watch hints at events, and with WorldOptions.Echo at the
// effects of calls. Several events of a pod before the pod's hint is taken give a single hint.
// Watch runs in the caller's goroutine.
func (r *Runtime) Watch(ctx context.Context) iter.Seq2[types.UID, error] {
	return func(yield func(types.UID, error) bool) {
		if !r.watching.CompareAndSwap(false, true) {
			yield("", errWatched)
			return
		}
		defer r.watching.Store(false)
		enough := false // the caller left its loop; yield must not be called again
		err := r.do(ctx, Call{Op: OpWatch}, "", "", func(*flight) error {
			s := r.openStream()
			defer r.closeStream(s)
			return r.drain(ctx, s, func(uid types.UID) bool {
				enough = !yield(uid, nil)
				return !enough
			})
		})
		if err != nil && !enough && ctx.Err() == nil {
			yield("", err)
		}
	}
}

// drain yields hints until the caller leaves the loop, ctx ends (nil) or the stream breaks.
func (r *Runtime) drain(ctx context.Context, s *stream, yield func(types.UID) bool) error {
	for ctx.Err() == nil {
		uid, ok, err := r.nextHint(s)
		switch {
		case err != nil:
			return err
		case ok:
			if !yield(uid) {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		}
	}
	return nil
}

func (w *World) openStream() *stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &stream{wake: signal.New(), known: map[types.UID]struct{}{}}
	for _, p := range w.mu.order {
		s.add(p.uid)
	}
	w.mu.streams = append(w.mu.streams, s)
	return s
}

func (w *World) closeStream(s *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.streams = slices.DeleteFunc(w.mu.streams, func(other *stream) bool { return other == s })
}

func (w *World) nextHint(s *stream) (uid types.UID, ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.err != nil || len(s.dirty) == 0 {
		return "", false, s.err
	}
	uid = s.dirty[0]
	s.dirty = s.dirty[1:]
	delete(s.known, uid)
	return uid, true, nil
}

// hint adds the pod to every stream. World.mu is held.
func (w *World) hint(uid types.UID) {
	for _, s := range w.mu.streams {
		s.add(uid)
		s.poke()
	}
}

// BreakWatch makes every open Watch stream yield err and stop. nil stands for a default error.
func (w *World) BreakWatch(err error) {
	if err == nil {
		err = errors.New("the stream of changes broke")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breakStreams(err)
}

func (w *World) breakStreams(err error) {
	for _, s := range w.mu.streams {
		s.err = err
		s.poke()
	}
}

func (s *stream) poke() {
	s.wake.Notify()
}
