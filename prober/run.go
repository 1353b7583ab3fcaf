// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"time"

	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// ErrAlreadyRun is returned by the second Run of a Prober.
var ErrAlreadyRun = errors.New("prober: Run was called before")

// longest is how long the scheduler waits when nothing is due.
const longest = 365 * 24 * time.Hour

// Run probes until ctx ends, including instances recorded before Run. When ctx ends, attempts are
// cancelled and not counted. Run returns nil as soon as all attempts and the sink have returned. A
// second call of Run returns ErrAlreadyRun.
func (p *Prober) Run(ctx context.Context) error {
	if !p.open() {
		return ErrAlreadyRun
	}
	p.pending.Go(func() { p.deliver(ctx) })
	p.pending.Go(func() { p.judge(ctx) })
	p.schedule(ctx)
	p.close()
	p.pending.Wait()
	return nil
}

func (p *Prober) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.life != lifecycle.New {
		return false
	}
	p.mu.life = lifecycle.Running
	return true
}

func (p *Prober) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.life = lifecycle.Stopped
}

// schedule starts attempts when due. Only schedule starts goroutines for attempts.
func (p *Prober) schedule(ctx context.Context) {
	timer := time.NewTimer(longest)
	for ctx.Err() == nil {
		timer.Reset(p.dispatch(ctx, time.Now()))
		select {
		case <-timer.C:
		case <-p.wake:
		case <-ctx.Done():
		}
	}
}

// dispatch starts due attempts while places are free, and returns the time until the next check.
func (p *Prober) dispatch(ctx context.Context, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.take(now, func(pr *probe) {
		if pool := p.poolOf(pr); pr.slow {
			p.launch(ctx, pool, pr, now)
		} else {
			pool.queue.push(pr)
		}
	})
	if len(p.mu.overdue) > 0 || len(p.mu.refused) > 0 {
		p.overdue.Notify()
	}
	next := now.Add(longest)
	for _, pool := range []*pool{&p.mu.network, &p.mu.exec} {
		if again, waiting := p.fill(ctx, pool, now); waiting && again.Before(next) {
			next = again
		}
	}
	if first := p.mu.agenda.first(); first != nil && first.due.Before(next) {
		next = first.due
	}
	p.mu.armed = next
	return next.Sub(now)
}

// fill gives free places of a pool to waiting probes. It returns the time of the next check, and
// whether a probe waits. The lock is held.
func (p *Prober) fill(ctx context.Context, pool *pool, now time.Time) (again time.Time, waiting bool) {
	for {
		for pr := pool.next(); pr != nil; pr = pool.next() {
			pool.occupy(p.launch(ctx, pool, pr, now))
		}
		again, waiting = pool.evict(now)
		if !waiting || len(pool.places) == pool.limit {
			return again, waiting
		}
	}
}

// poolOf returns the pool that bounds the attempts of pr. The lock is held.
func (p *Prober) poolOf(pr *probe) *pool {
	if pr.config.isExec() {
		return &p.mu.exec
	}
	return &p.mu.network
}

// launch starts an attempt in a new goroutine. The lock is held.
func (p *Prober) launch(ctx context.Context, pool *pool, pr *probe, now time.Time) *attempt {
	a := p.begin(ctx, pool, pr, now)
	p.pending.Go(func() { p.work(ctx, a) })
	return a
}

// begin creates an attempt of pr and records it as running. The lock is held.
func (p *Prober) begin(ctx context.Context, pool *pool, pr *probe, now time.Time) *attempt {
	a := newAttempt(pr, now)
	a.pool = pool
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	p.mu.start(a)
	return a
}

// work makes an attempt, and then further attempts while it has a place.
func (p *Prober) work(ctx context.Context, a *attempt) {
	for a != nil {
		out, err := p.try(a)
		if report, counts := p.settle(ctx, a, out, err); counts {
			p.report(report)
			p.release(a)
		}
		a = p.proceed(ctx, a)
	}
}

// settle counts an attempt, unless it was cancelled.
func (p *Prober) settle(ctx context.Context, a *attempt, out Outcome, err error) (Attempt, bool) {
	a.cancel(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return Attempt{}, false
	}
	if a.phase != phaseAbandoned {
		a.pool.learn(a)
	}
	j, counts := p.mu.registry.settle(a, out.Verdict, p.options.ErrorsAsFailureAfter, a.ended)
	p.rouse()
	report := a.report(out, err, j, a.began, a.ended)
	report.Tries = a.tries
	return report, counts
}

// release schedules the next attempt of the probe.
func (p *Prober) release(a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.registry.release(a, time.Now())
	p.rouse()
}

// proceed passes the place of a to the next attempt and returns the attempt; nil if no probe waits
// or a has lost its place.
func (p *Prober) proceed(ctx context.Context, a *attempt) *attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.place == noPlace {
		return nil
	}
	a.pool.vacate(a)
	if ctx.Err() != nil {
		return nil
	}
	pr := a.pool.next()
	if pr == nil {
		return nil
	}
	next := p.begin(ctx, a.pool, pr, time.Now())
	a.pool.occupy(next)
	p.rouse()
	return next
}

// judge reports attempts judged without their handler, until ctx ends.
func (p *Prober) judge(ctx context.Context) {
	for ctx.Err() == nil {
		a, report := p.nextJudged(time.Now())
		if a != nil {
			p.report(report)
			p.release(a)
			continue
		}
		select {
		case <-p.overdue:
		case <-ctx.Done():
		}
	}
}

// nextJudged returns the next attempt to judge without its handler, or nil.
func (p *Prober) nextJudged(now time.Time) (*attempt, Attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.rouse()
	if a, j := p.mu.settleOverdue(now); a != nil {
		return a, a.report(timedOut(a.timeout), nil, j, a.started, now)
	}
	if a, j := p.mu.settleRefused(p.options.ErrorsAsFailureAfter, now); a != nil {
		return a, a.report(Outcome{}, errCrowded, j, now, now)
	}
	return nil, Attempt{}
}

// deliver passes updates to the sink until ctx ends.
func (p *Prober) deliver(ctx context.Context) {
	for ctx.Err() == nil {
		if u, ok := p.nextUpdate(); ok {
			p.options.Sink.ProbeResult(u)
			continue
		}
		select {
		case <-p.told:
		case <-ctx.Done():
		}
	}
}

func (p *Prober) nextUpdate() (Update, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.tell()
}
