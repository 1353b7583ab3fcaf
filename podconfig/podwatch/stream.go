// SPDX-License-Identifier: Apache-2.0

package podwatch

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/clientkit"
)

const (
	// standing is the duration after which a watch counts as successful.
	standing = 5 * time.Second
	// shortest is the minimum time between the openings of two watches after a short watch. It
	// doubles with each consecutive short watch, up to longest.
	shortest = time.Second
	longest  = 10 * time.Second
)

// stream passes the events of a watch to the reflector, in a single goroutine. Stop waits for the end of
// the goroutine.
type stream struct {
	client   *client
	initial  bool // the initial events, up to a bookmark, form a list
	lifetime time.Duration
	opened   time.Time
	done     <-chan struct{} // of the context passed to open
	inner    watch.Interface
	end      func() // ends inner
	events   chan watch.Event
	stop     func()
	stopped  chan struct{}
	ended    chan struct{}
}

func newStream(c *client, initial bool, lifetime time.Duration) *stream {
	s := &stream{client: c, initial: initial, lifetime: lifetime, opened: time.Now(),
		events: make(chan watch.Event), stopped: make(chan struct{}), ended: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.stopped) })
	return s
}

// allowed returns the maximum duration of the initial events, or else of the watch.
func (s *stream) allowed() time.Duration {
	if s.initial {
		return requestTimeout
	}
	return s.lifetime
}

// open opens the watch within the allowed time, and starts the goroutine.
func (s *stream) open(ctx context.Context, o metav1.ListOptions) error {
	s.done = ctx.Done()
	// A proxy may withhold the answer until the first event, a bookmark after a minute.
	most := min(s.allowed(), 2*requestTimeout)
	inner, end, err := clientkit.OpenWatch(ctx, most, func(ctx context.Context) (watch.Interface, error) { return s.client.pods.Watch(ctx, o) })
	if err != nil {
		return err
	}
	s.inner, s.end = inner, end
	go s.run()
	return nil
}

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.events }

// Stop implements watch.Interface.
func (s *stream) Stop() {
	s.stop()
	<-s.ended
}

func (s *stream) run() {
	defer close(s.ended)
	defer close(s.events)
	defer s.end()
	s.client.notBefore = s.opened.Add(min(longest, shortest<<min(s.client.short, 4)))
	s.client.short++
	end := time.NewTimer(s.allowed() - time.Since(s.opened))
	defer end.Stop()
	stands := time.NewTimer(standing)
	defer stands.Stop()
	for seen := 0; ; seen++ {
		select {
		case <-s.stopped:
			return
		case <-stands.C:
			s.client.short = 0
			if s.initial {
				stands.Reset(standing)
				continue
			}
			s.client.report.works(verbWatch)
		case <-end.C:
			s.endFromServer(clientkit.TimeoutError{After: s.allowed()}, seen)
			return
		case event, open := <-s.inner.ResultChan():
			if isClosed(s.done) {
				return // further events come from the client's own shutdown
			}
			if !open {
				s.endFromServer(clientkit.ErrAtOnce, seen)
				return
			}
			if !s.forward(event) {
				return
			}
			if s.initial && isEndOfInitialEvents(event) {
				s.initial = false
				s.client.stale = 0
				s.client.report.works(verbList)
				end.Reset(s.lifetime - time.Since(s.opened))
			}
		}
	}
}

// endFromServer ends the stream after the server ended the watch. For an ordinary watch the
// reflector ignores the reason. For a watch-list without its final bookmark, finish sends an error,
// because the reflector would otherwise retry at once.
func (s *stream) endFromServer(why error, seen int) {
	switch {
	case s.initial:
		s.send(s.errorEvent(s.client.unstreamed(why)))
	case seen == 0 && time.Since(s.opened) < shortest:
		s.client.report.failed(&Error{Verb: verbWatch, Reason: clientkit.Unreachable, Err: why})
	}
}

// forward passes an event on, and returns false after the last event.
func (s *stream) forward(event watch.Event) bool {
	switch event.Type {
	case watch.Error:
		s.send(s.finalEvent(event))
		return false
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		if p, ok := event.Object.(*v1.Pod); ok {
			return event.Type != watch.Bookmark && !s.client.ours(verbWatch, p) || s.send(event)
		}
	}
	s.client.report.failed(&Error{Verb: verbWatch, Reason: clientkit.BadAnswer, Err: clientkit.ErrBadAnswer})
	return true
}

// finalEvent reports an error event of the server, and returns the event for the reflector.
func (s *stream) finalEvent(event watch.Event) watch.Event {
	err := apierrors.FromObject(event.Object)
	if s.initial {
		return s.errorEvent(s.client.unstreamed(err))
	}
	s.client.report.failed(problem(verbWatch, err))
	return event
}

// errorEvent returns an error event.
func (s *stream) errorEvent(err error) watch.Event {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonUnknown, Message: err.Error()}
	if known, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status = known.ErrStatus
	}
	return watch.Event{Type: watch.Error, Object: &status}
}

// send returns false if the stream was stopped.
func (s *stream) send(event watch.Event) bool {
	select {
	case s.events <- event:
		return true
	case <-s.stopped:
		return false
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// isEndOfInitialEvents reports whether an event is the bookmark after the initial events of a
// watch-list.
func isEndOfInitialEvents(event watch.Event) bool {
	p, ok := event.Object.(*v1.Pod)
	return ok && event.Type == watch.Bookmark && p.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}
