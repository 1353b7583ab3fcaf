// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"context"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
)

// stream is an open watch. A goroutine sends its events.
type stream struct {
	client    *Client
	feed      *feed
	cancel    context.CancelCauseFunc
	events    chan watch.Event
	pass      func(watch.Event) error // takes the events in place of the channel; nil: the channel
	bookmarks bool
	timeout   time.Duration // 0: none
	wake      signal.Signal
	failure   *metav1.Status // the only event; nil: none

	pending []change // guarded by Server.mu
}

// Follow passes the present pods of a node to f, as additions that end with a bookmark, and then the changes
// of the pods, in the goroutine of the caller. It returns the error of f, the error of a connection that is
// cut at the begin, and nil when ctx or the watch has ended. It is a Watch without a channel and a goroutine.
func (c *Client) Follow(ctx context.Context, node string, f func(watch.Event) error) (err error) {
	if _, err := c.begin(ctx, &metav1.ListOptions{}); err != nil {
		return err
	}
	w, inner, err := c.add(ctx, node, &metav1.ListOptions{SendInitialEvents: new(true)})
	if err != nil {
		return err
	}
	w.pass = func(e watch.Event) error {
		err = f(e)
		return err
	}
	w.run(inner)
	return err
}

// open starts a watch. node is "" for all pods.
func (c *Client) open(ctx context.Context, node string, o *metav1.ListOptions) (watch.Interface, error) {
	w, inner, err := c.add(ctx, node, o)
	if err != nil {
		return nil, err
	}
	go w.run(inner)
	return w, nil
}

// add returns a watch that is to run in the returned context.
func (c *Client) add(ctx context.Context, node string, o *metav1.ListOptions) (*stream, context.Context, error) {
	s := c.server
	inner, cancel := context.WithCancelCause(ctx)
	w := &stream{
		client: c, cancel: cancel, events: make(chan watch.Event), wake: signal.New(), bookmarks: o.AllowWatchBookmarks,
	}
	if o.TimeoutSeconds != nil {
		w.timeout = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.feed = s.feed(node)
	if err := w.begin(s, o); err != nil {
		cancel(nil)
		return nil, nil, err
	}
	w.feed.streams = append(w.feed.streams, w)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.streams[w] = true
	if c.mu.err != nil { // cut in the meantime
		cancel(nil)
	}
	return w, inner, nil
}

// begin fills in the first events. Server.mu is held.
func (w *stream) begin(s *Server, o *metav1.ListOptions) error {
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	if from := o.ResourceVersion; !initial && from != "" && from != "0" {
		version, err := strconv.Atoi(from)
		if err != nil {
			return apierrors.NewBadRequest("invalid resource version " + strconv.Quote(from))
		}
		if version < w.feed.forgotten {
			w.failure = expired(version, w.feed.forgotten)
			return nil
		}
		i := slices.IndexFunc(w.feed.log, func(c change) bool { return c.version > version })
		if i >= 0 {
			w.pending = slices.Clone(w.feed.log[i:])
		}
		return nil
	}
	for _, pod := range w.feed.sorted() {
		w.pending = append(w.pending, change{kind: watch.Added, pod: pod})
	}
	if initial {
		w.pending = append(w.pending, change{version: s.mu.version, kind: initialEnd})
	}
	return nil
}

// initialEnd is the kind of the bookmark that ends the initial events.
const initialEnd watch.EventType = "INITIAL-EVENTS-END"

// Stop implements watch.Interface.
func (w *stream) Stop() { w.cancel(errStopped) }

// ResultChan implements watch.Interface.
func (w *stream) ResultChan() <-chan watch.Event { return w.events }

// run sends the events until ctx ends.
func (w *stream) run(ctx context.Context) {
	defer w.close()
	defer close(w.events)
	if w.failure != nil {
		w.send(ctx, watch.Event{Type: watch.Error, Object: w.failure})
		return
	}
	var late <-chan time.Time
	if w.timeout > 0 {
		timer := time.NewTimer(w.timeout)
		defer timer.Stop()
		late = timer.C
	}
	for {
		for _, c := range w.take() {
			// A change is visible after the lag, also if several changes wait.
			if retry.Sleep(ctx, w.client.lag-time.Since(c.at)) != nil || !w.send(ctx, c.event()) {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-late:
			w.last(ctx)
			return
		}
	}
}

// last sends the bookmark at the end of the time of a watch, unless events are left.
func (w *stream) last(ctx context.Context) {
	s := w.client.server
	s.mu.Lock()
	bookmark, left := change{version: s.mu.version, kind: watch.Bookmark}, len(w.pending) > 0
	s.mu.Unlock()
	if w.bookmarks && !left {
		w.send(ctx, bookmark.event())
	}
}

// event returns the watch event of a change.
func (c change) event() watch.Event {
	switch c.kind {
	case watch.Bookmark, initialEnd:
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(c.version)}}
		if c.kind == initialEnd {
			pod.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		return watch.Event{Type: watch.Bookmark, Object: pod}
	default:
		return watch.Event{Type: c.kind, Object: c.pod}
	}
}

func (w *stream) send(ctx context.Context, e watch.Event) bool {
	if w.pass != nil {
		return w.pass(e) == nil
	}
	select {
	case w.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *stream) take() []change {
	s := w.client.server
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := w.pending
	w.pending = nil
	return taken
}

// close removes the watch from its feed.
func (w *stream) close() {
	w.cancel(nil)
	s := w.client.server
	s.mu.Lock()
	defer s.mu.Unlock()
	w.feed.streams = slices.DeleteFunc(w.feed.streams, func(o *stream) bool { return o == w })
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	delete(w.client.mu.streams, w)
}
