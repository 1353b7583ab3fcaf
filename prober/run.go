// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"time"
)

// ErrAlreadyRun is returned by the second Run of a Prober.
var ErrAlreadyRun = errors.New("prober: Run was called before")

// longest is how long the scheduler waits when nothing is due.
const longest = 365 * 24 * time.Hour

// pool bounds the attempts of one kind that are under way. Its goroutines come and go with the work.
type pool struct {
	limit, busy int
	queue       line
}

// Run probes until ctx ends, beginning with what was recorded before. When it ends, attempts are cancelled and count
// for nothing, and Run returns nil as soon as each of them, and the sink, has returned. It may be called once; a second
// call returns ErrAlreadyRun.
func (p *Prober) Run(ctx context.Context) error {
	if !p.open() {
		return ErrAlreadyRun
	}
	if p.options.Sink != nil {
		p.pending.Go(func() { p.deliver(ctx) })
	}
	p.schedule(ctx)
	p.close()
	p.pending.Wait()
	return nil
}

func (p *Prober) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.life != lifeNew {
		return false
	}
	p.mu.life = lifeRunning
	return true
}

func (p *Prober) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.life = lifeStopped
}

// schedule lets attempts begin when they are due. It is the only one who begins goroutines for them.
func (p *Prober) schedule(ctx context.Context) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(p.dispatch(ctx, time.Now()))
		select {
		case <-timer.C:
		case <-p.wake:
		case <-ctx.Done():
		}
	}
}

// dispatch queues what is due, gives it goroutines as far as that is allowed, and returns how long nothing else is due.
func (p *Prober) dispatch(ctx context.Context, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.take(now, func(pr *probe) { p.poolOf(pr).queue.push(pr) })
	for _, pool := range []*pool{&p.mu.network, &p.mu.exec} {
		for range min(pool.queue.len(), pool.limit-pool.busy) {
			pool.busy++
			p.pending.Go(func() { p.work(ctx, pool) })
		}
	}
	wait := longest
	if first := p.mu.agenda.first(); first != nil {
		wait = first.due.Sub(now)
	}
	p.mu.armed = now.Add(wait)
	return wait
}

// poolOf returns where the attempts of pr are bounded. The lock is held.
func (p *Prober) poolOf(pr *probe) *pool {
	if pr.config.isExec() {
		return &p.mu.exec
	}
	return &p.mu.network
}

// work makes attempts of one pool until none is queued.
func (p *Prober) work(ctx context.Context, pool *pool) {
	for {
		a, ok := p.begin(ctx, pool)
		if !ok {
			return
		}
		out, err := p.try(&a)
		if report, counts := p.settle(ctx, &a, out, err); counts {
			p.report(report)
		}
		p.release(&a)
	}
}

// begin takes the next attempt of the pool. False: the goroutine is not needed any more.
func (p *Prober) begin(ctx context.Context, pool *pool) (attempt, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		pr, ok := pool.queue.pop()
		if !ok {
			break
		}
		if pr.stage != StageQueued {
			continue // stopped while it waited its turn
		}
		attemptCtx, cancel := context.WithCancelCause(ctx)
		pr.start(cancel)
		return attempt{
			probe: pr, target: pr.target(), due: pr.due, timeout: pr.config.timing.Timeout,
			ctx: attemptCtx, cancel: cancel,
		}, true
	}
	pool.busy--
	return attempt{}, false
}

// settle counts an attempt, unless it was cancelled.
func (p *Prober) settle(ctx context.Context, a *attempt, out Outcome, err error) (Attempt, bool) {
	a.cancel(nil)
	verdict := out.Verdict
	if err != nil {
		verdict = VerdictNone
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return Attempt{}, false
	}
	j, counts := p.mu.registry.settle(a.probe, verdict, p.options.ErrorsAsFailureAfter, a.ended)
	p.rouse()
	return a.report(out, err, j, a.probe.tally), counts
}

// release lets the probe wait for its next attempt.
func (p *Prober) release(a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.registry.release(a.probe, a.started, time.Now())
	p.rouse()
}

// deliver tells the sink what is new until ctx ends.
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
