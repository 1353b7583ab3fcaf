// SPDX-License-Identifier: Apache-2.0

package apiserver

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
)

const (
	// standing is how long a watch must have gone on for the server to be well.
	standing = 5 * time.Second
	// shortest is the time from the opening of a watch that did not last to that of the next.
	shortest = time.Second
)

// stream passes the events of a watch on to the reflector. It has one goroutine, which ends with Stop, and which has
// ended when Stop returns.
type stream struct {
	client   *client
	initial  bool // the first events, up to a bookmark, stand for a list
	lifetime time.Duration
	opened   time.Time
	done     <-chan struct{} // of the context of whoever opened it
	cancel   context.CancelFunc
	inner    watch.Interface
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

// allowed is how long the watch may go on without an end of the initial events, if there are any.
func (s *stream) allowed() time.Duration {
	if s.initial {
		return s.client.timeout
	}
	return s.lifetime
}

// open asks the server, within the time that is allowed, and starts the goroutine.
func (s *stream) open(ctx context.Context, o metav1.ListOptions) error {
	s.done = ctx.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	// A proxy may hold the answer back until the first event, which is a bookmark after a minute.
	most := min(s.allowed(), 2*s.client.timeout)
	late := time.AfterFunc(most, func() { cancel(timeoutError{most}) })
	inner, err := s.client.pods.Watch(ctx, o)
	inTime := late.Stop()
	if err == nil && !inTime {
		drain(inner)
		err = context.Cause(ctx)
	}
	if err != nil {
		if timeout, ok := errors.AsType[timeoutError](context.Cause(ctx)); ok {
			err = timeout
		}
		cancel(nil)
		return err
	}
	s.inner, s.cancel = inner, func() { cancel(nil) }
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
	defer func() {
		s.cancel()
		drain(s.inner)
	}()
	s.client.notBefore = s.opened.Add(shortest)
	end := time.NewTimer(s.allowed() - time.Since(s.opened))
	defer end.Stop()
	stands := time.NewTimer(standing)
	defer stands.Stop()
	for seen := 0; ; seen++ {
		select {
		case <-s.stopped:
			return
		case <-stands.C:
			if s.initial {
				stands.Reset(standing)
				continue
			}
			s.client.report.works(VerbWatch)
		case <-end.C:
			s.finish(timeoutError{s.allowed()}, seen)
			return
		case event, open := <-s.inner.ResultChan():
			if isClosed(s.done) {
				return // what comes now is the client's word of its own end
			}
			if !open {
				s.finish(errAtOnce, seen)
				return
			}
			if !s.take(event) {
				return
			}
			if s.initial && isEndOfInitialEvents(event) {
				s.initial = false
				s.client.stale = 0
				s.client.report.works(VerbList)
				end.Reset(s.lifetime - time.Since(s.opened))
			}
		}
	}
}

// finish ends the stream from the server's side. Nobody relies on how a watch ends; but a watch-list without its end is
// none, and the reflector would ask for it again at once.
func (s *stream) finish(why error, seen int) {
	switch {
	case s.initial:
		s.send(s.failure(s.client.unstreamed(why)))
	case seen == 0 && time.Since(s.opened) < shortest:
		s.client.report.failed(&Error{Verb: VerbWatch, Reason: ReasonUnreachable, Err: why})
	}
}

// take passes an event on, and returns false if it was the last.
func (s *stream) take(event watch.Event) bool {
	switch event.Type {
	case watch.Error:
		s.send(s.failed(event))
		return false
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		if p, ok := event.Object.(*v1.Pod); ok {
			return event.Type != watch.Bookmark && !s.client.ours(VerbWatch, p) || s.send(event)
		}
	}
	s.client.report.failed(&Error{Verb: VerbWatch, Reason: ReasonBadAnswer, Err: errBadAnswer})
	return true
}

// failed reports the server's last word, and returns what the reflector should hear.
func (s *stream) failed(event watch.Event) watch.Event {
	err := apierrors.FromObject(event.Object)
	if s.initial {
		return s.failure(s.client.unstreamed(err))
	}
	s.client.report.failed(problem(VerbWatch, err))
	return event
}

// failure is an event of an error.
func (s *stream) failure(err error) watch.Event {
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

// drain stops a watch and waits for its end.
func drain(w watch.Interface) {
	w.Stop()
	for range w.ResultChan() {
	}
}

// isEndOfInitialEvents tells whether an event is the bookmark behind the initial events of a watch-list.
func isEndOfInitialEvents(event watch.Event) bool {
	p, ok := event.Object.(*v1.Pod)
	return ok && event.Type == watch.Bookmark && p.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}
