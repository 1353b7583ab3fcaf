// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// round requests an object and follows it until ctx ends, the watch ends, or the object is
// immutable.
//
// The watch is opened before the object is requested, so that no change is missed. Like list and
// watch, this takes two requests. But an up-to-date list takes the server a tenth of a second,
// because its cache must first catch up.
func (o *Objects) round(ctx context.Context, e *entry) {
	a := o.ask(ctx, e)
	follow, news := o.opened(ctx, e, a)
	if news {
		o.options.Changed(e.ref)
	}
	if a.stream == nil {
		return
	}
	defer a.stream.close()
	if follow {
		o.follow(ctx, e, a.stream)
	}
}

// asked is the outcome of the first requests of a round.
type asked struct {
	begun    time.Time
	stream   *stream // nil if there is no watch
	watchErr *Error  // why there is no watch; nil if no watch is needed
	content  content
	err      *Error // if not nil, content is not known
}

func (o *Objects) ask(ctx context.Context, e *entry) asked {
	// Only rounds write the content, and an entry has at most one round at a time.
	if e.known && e.content.immutable() {
		if a := o.askOnce(ctx, e.ref); a.err != nil || a.content.immutable() {
			return a
		}
	}
	begun := time.Now()
	s, err := openStream(ctx, o.options, e.ref)
	if err != nil {
		if reason, err := judge(err); ofServer(reason) && reason != clientkit.Timeout {
			return asked{begun: begun, err: &Error{Ref: e.ref, Verb: verbGet, Reason: reason, Err: err}} // the get would fail in the same way
		}
	}
	a := o.askOnce(ctx, e.ref)
	a.begun, a.stream = begun, s
	if err != nil {
		a.watchErr = problem(e.ref, verbWatch, err)
	}
	return a
}

// askOnce requests the object without a watch.
func (o *Objects) askOnce(ctx context.Context, ref objects.Ref) asked {
	a := asked{begun: time.Now()}
	limited, cancel := context.WithTimeoutCause(ctx, requestTimeout, clientkit.TimeoutError{After: requestTimeout})
	defer cancel()
	var err error
	if a.content, err = get(limited, o.options.Client, ref); err != nil {
		a.err = problem(ref, verbGet, err)
	}
	return a
}

// opened records the outcome of the first requests of a round. follow reports whether to follow the
// watch, news whether to call Changed.
func (o *Objects) opened(ctx context.Context, e *entry, a asked) (follow, news bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.opening--
	o.kick.Notify()
	if ctx.Err() != nil {
		return false, false
	}
	if a.err == nil || !a.err.outage() {
		o.mu.uplink.works()
		o.mu.report.answers()
	}
	if a.err != nil {
		o.failed(e, a.err, a.begun)
		return false, false
	}
	news = e.learn(a.content)
	switch {
	case a.content.immutable():
		o.settle(e)
	case a.watchErr != nil: // then the object is requested periodically
		o.failed(e, a.watchErr, a.begun)
	default:
		e.problem = nil
		e.phase = phaseWatching
		return true, news
	}
	return false, news
}

// well records that e has a lasting watch, or needs none. The lock is held.
func (o *Objects) well(e *entry) {
	e.problem, e.failures = nil, 0
	o.mu.report.over(e.ref)
	o.kick.Notify()
}

// settle ends the requests for an immutable object. The lock is held.
func (o *Objects) settle(e *entry) {
	e.phase = phaseSettled
	o.well(e)
}

// follow handles the events of a watch.
func (o *Objects) follow(ctx context.Context, e *entry, s *stream) {
	var stands <-chan time.Time // nil if no failure of e was reported
	if o.troubled(e) {
		stands = time.After(standing)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-stands:
			o.stands(ctx, e)
		case event, open := <-s.inner.ResultChan():
			if !open {
				o.ended(ctx, e, s, &Error{Ref: e.ref, Verb: verbWatch, Reason: clientkit.Unreachable, Err: clientkit.ErrAtOnce})
				return
			}
			more, why := o.take(ctx, e, event)
			if why != nil {
				o.ended(ctx, e, s, why)
			}
			if !more {
				return
			}
		}
	}
}

func (o *Objects) troubled(e *entry) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.report.knows(e.ref)
}

func (o *Objects) stands(ctx context.Context, e *entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Err() == nil {
		o.well(e)
	}
}

// take handles an event. more reports whether further events may come. If not, why is the failure
// of the watch; nil if the watch is no longer needed.
func (o *Objects) take(ctx context.Context, e *entry, event watch.Event) (more bool, why *Error) {
	switch event.Type {
	case watch.Bookmark:
		return true, nil
	case watch.Error:
		return false, problem(e.ref, verbWatch, apierrors.FromObject(event.Object))
	}
	c, ok := contentOf(event.Object)
	if !ok {
		return false, &Error{Ref: e.ref, Verb: verbWatch, Reason: clientkit.BadAnswer, Err: clientkit.ErrBadAnswer}
	}
	if !c.is(e.ref) {
		return true, nil // from a server that ignores the field selector
	}
	more, news := o.happened(ctx, e, event.Type, c)
	if news {
		o.options.Changed(e.ref)
	}
	return more, nil
}

// happened records an event. more reports whether further events may come, news whether to call
// Changed.
func (o *Objects) happened(ctx context.Context, e *entry, what watch.EventType, c content) (more, news bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	order := c.after(e.content)
	switch {
	case ctx.Err() != nil:
		return false, false
	case what == watch.Deleted && order >= 0:
		return true, e.learn(content{})
	case what == watch.Deleted || order <= 0:
		return true, false // from before the object was requested
	}
	news = e.learn(c)
	if c.immutable() {
		o.settle(e)
		return false, news
	}
	return true, news
}

// ended schedules a new request for the object after the end of a watch. An early end counts as a
// failure.
func (o *Objects) ended(ctx context.Context, e *entry, s *stream, why *Error) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if now.Sub(s.opened) < standing {
		o.failed(e, why, s.opened)
	} else {
		e.phase = phaseWaiting
		o.mu.queue.put(e, now.Add(time.Duration(o.options.Random()*float64(spread))))
		o.well(e)
	}
	o.kick.Notify()
}
