// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// round asks for an object and follows it until ctx ends, the watch does, or nothing more can happen to it.
//
// The watch is opened first, and the object asked for after that: so nothing can happen in between. It takes two
// requests like a list and a watch; but a list that is up to date takes the server a tenth of a second, because its cache
// first has to hear of all that it has missed.
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

// asked is the outcome of the requests that begin a round.
type asked struct {
	begun    time.Time
	stream   *stream // nil if there is no watch
	watchErr *Error  // why there is none; nil if there need not be
	content  content
	err      *Error // content is not known
}

func (o *Objects) ask(ctx context.Context, e *entry) asked {
	// Rounds alone write the content, and of an entry there is one at a time.
	if e.known && e.content.immutable() {
		if a := o.askOnce(ctx, e.ref); a.err != nil || a.content.immutable() {
			return a
		}
	}
	begun := time.Now()
	s, err := openStream(ctx, o.options, e.ref)
	if err != nil {
		if reason, err := judge(err); ofServer(reason) && reason != ReasonTimeout {
			return asked{begun: begun, err: &Error{Ref: e.ref, Verb: VerbGet, Reason: reason, Err: err}} // as it would be
		}
	}
	a := o.askOnce(ctx, e.ref)
	a.begun, a.stream = begun, s
	if err != nil {
		a.watchErr = problem(e.ref, VerbWatch, err)
	}
	return a
}

// askOnce asks for the object alone.
func (o *Objects) askOnce(ctx context.Context, ref objects.Ref) asked {
	a := asked{begun: time.Now()}
	limited, cancel := context.WithTimeoutCause(ctx, o.options.Timeout, timeoutError{o.options.Timeout})
	defer cancel()
	var err error
	if a.content, err = get(limited, o.options.Client, ref); err != nil {
		a.err = problem(ref, VerbGet, err)
	}
	return a
}

// opened notes what came of the first requests of a round, and tells whether to follow the watch.
func (o *Objects) opened(ctx context.Context, e *entry, a asked) (follow, news bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.opening--
	o.wake()
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
	case a.watchErr != nil: // then it is asked for now and then
		o.failed(e, a.watchErr, a.begun)
	default:
		e.problem = nil
		e.enter(PhaseWatching, time.Now())
		return true, news
	}
	return false, news
}

// well notes that an attempt has led to something that lasts. The lock is held.
func (o *Objects) well(e *entry) {
	e.problem, e.failures = nil, 0
	o.mu.report.over(e.ref)
	o.wake()
}

// settle leaves an immutable object alone from now on. The lock is held.
func (o *Objects) settle(e *entry) {
	e.enter(PhaseSettled, time.Now())
	o.well(e)
}

// follow takes in the events of a watch.
func (o *Objects) follow(ctx context.Context, e *entry, s *stream) {
	var stands <-chan time.Time // never, if it makes no difference
	if o.troubled(e) {
		timer := time.NewTimer(standing)
		defer timer.Stop()
		stands = timer.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-stands:
			o.stands(ctx, e)
		case event, open := <-s.inner.ResultChan():
			if !open {
				o.ended(ctx, e, s, &Error{Ref: e.ref, Verb: VerbWatch, Reason: ReasonUnreachable, Err: errAtOnce})
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

// take takes in one event. It returns whether there may be more, and if there may not, why the watch is of no more use;
// nil if none is needed.
func (o *Objects) take(ctx context.Context, e *entry, event watch.Event) (more bool, why *Error) {
	switch event.Type {
	case watch.Bookmark:
		return true, nil
	case watch.Error:
		return false, problem(e.ref, VerbWatch, apierrors.FromObject(event.Object))
	}
	c, ok := contentOf(event.Object)
	if !ok {
		return false, &Error{Ref: e.ref, Verb: VerbWatch, Reason: ReasonBadAnswer, Err: errBadAnswer}
	}
	if !c.is(e.ref) {
		return true, nil // of a server that cannot select
	}
	more, news := o.happened(ctx, e, event.Type, c)
	if news {
		o.options.Changed(e.ref)
	}
	return more, nil
}

// happened notes an event, and tells whether there may be more, and whether it is news.
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
		return true, false // from before the object was asked for
	}
	news = e.learn(c)
	if c.immutable() {
		o.settle(e)
		return false, news
	}
	return true, news
}

// ended has the object asked for again after the end of a watch. If that came early, it counts as failed.
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
		e.enter(PhaseWaiting, now)
		o.mu.queue.put(e, now.Add(rand.N(spread)))
		o.well(e)
	}
	o.wake()
}
