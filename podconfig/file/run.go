// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/podconfig"
)

// Run submits a snapshot of all pods to out first, and then the changes, until ctx ends. Then it
// returns nil. An error of out also ends Run and is returned. The watch is armed before the first
// scan, so that no change is missed.
func (s *Source) Run(ctx context.Context, out podconfig.Sink) error {
	if !s.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	l := &loop{source: s, out: out, pace: pace{debounce: s.debounce, period: s.period}}
	defer l.disarm()
	l.rearm(ctx)
	err := l.scan(ctx)
	for err == nil && ctx.Err() == nil {
		err = l.runStep(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// loop is the state of one Run.
type loop struct {
	source *Source
	out    podconfig.Sink
	pace   pace
	hints  <-chan struct{}
	cancel context.CancelFunc // ends the watch
	arming chan armed         // a pending call of Hints; nil without a call
	told   known              // the pods submitted to out
	synced bool               // a snapshot has been submitted
}

// runStep waits for a hint or the next step, and handles it.
func (l *loop) runStep(ctx context.Context) error {
	do, at := l.pace.next()
	select {
	case <-ctx.Done():
		return nil
	case _, open := <-l.hints:
		now := time.Now()
		l.pace.hint(now)
		if !open {
			l.disarm()
			l.pace.watchEnded(now)
		}
		return nil
	case <-time.After(time.Until(at)):
	}
	switch do {
	case stepGlance:
		return l.glance(ctx)
	case stepArm:
		l.rearm(ctx)
		l.pace.hint(time.Now()) // changes before the watch was armed
		return nil
	}
	return l.scan(ctx)
}

func (l *loop) scan(ctx context.Context) error {
	r, err := l.source.Scan(ctx)
	if err != nil {
		return err
	}
	l.pace.afterScan(time.Now(), r.Recheck)
	return l.submit(ctx, r)
}

func (l *loop) glance(ctx context.Context) error {
	r, err := l.source.Glance(ctx)
	if err != nil {
		return err
	}
	l.pace.afterGlance(l.source.settled, r.Recheck)
	return l.submit(ctx, r)
}

func (l *loop) submit(ctx context.Context, r Result) error {
	if !r.Changed || !r.Ready {
		return nil
	}
	now, say := knownOf(r.Pods), []podconfig.Change{podconfig.Snapshot(r.Pods...)}
	if l.synced {
		say = changes(l.told, now)
	}
	for _, c := range say {
		if err := l.out.Submit(ctx, c.Given()); err != nil { // a changed file makes new pods
			return fmt.Errorf("file source: submit: %w", err)
		}
	}
	l.told, l.synced = now, true
	return nil
}

func (l *loop) rearm(ctx context.Context) {
	if l.source.hinter == nil {
		return
	}
	watchCtx, cancel := context.WithCancel(ctx)
	hints, err := l.watch(watchCtx)
	watch := subject{path: l.source.path, watch: true}
	if err != nil {
		cancel()
		l.pace.armFailed(time.Now())
		l.source.report.set(watch, fmt.Errorf("cannot watch for changes, looking every %v instead: %w", l.source.period, err))
		return
	}
	l.hints, l.cancel = hints, cancel
	l.pace.armed()
	l.source.report.set(watch, nil)
}

// armed is the result of Hints.
type armed struct {
	hints <-chan struct{}
	err   error
}

// watch calls the Hinter. If Hints does not return because the file system hangs, the call is
// abandoned and not repeated before it has returned; the caller must then cancel ctx.
func (l *loop) watch(ctx context.Context) (<-chan struct{}, error) {
	if l.arming == nil {
		l.arming = make(chan armed, 1)
		go func(answer chan<- armed) {
			hints, err := l.source.hinter.Hints(ctx, l.source.path)
			answer <- armed{hints, err}
		}(l.arming)
	}
	select {
	case a := <-l.arming:
		l.arming = nil
		return a.hints, a.err
	case <-time.After(patience):
		return nil, errHung
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// disarm ends the watch, and waits for its end for the duration farewell at most.
func (l *loop) disarm() {
	if l.hints == nil {
		return
	}
	l.cancel()
	late := time.After(farewell)
	for open := true; open; {
		select {
		case _, open = <-l.hints:
		case <-late:
			open = false
		}
	}
	l.hints, l.cancel = nil, nil
}
