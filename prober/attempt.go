// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Attempt is one attempt that counted, for metrics and events.
type Attempt struct {
	Target Target
	// Verdict is VerdictNone if all there was is Err.
	Verdict Verdict
	Output  string // at most MaxOutput bytes of valid UTF-8
	Err     error
	// Tries is how often the handler was asked; more than once only after errors.
	Tries int

	// Result is what is established after this attempt, and Published whether this attempt changed it.
	Result    Result
	Published bool
	// Run is how many attempts in a row have had this outcome, and Threshold how many it takes. Both are 0 if the
	// attempt counts for nothing.
	Run, Threshold int
	// Repeated says that the attempt before had the same Verdict.
	Repeated bool

	Due, Started, Ended time.Time
}

// Lateness is how long after it was due the attempt began.
func (a Attempt) Lateness() time.Duration { return a.Started.Sub(a.Due) }

// Duration is how long the attempt took, all tries together.
func (a Attempt) Duration() time.Duration { return a.Ended.Sub(a.Started) }

// attempt is one that is under way.
type attempt struct {
	probe  *probe
	target Target
	due    time.Time
	// timeout is for all tries together.
	timeout time.Duration
	// ctx is cancelled with cancel; the timeout is set when the handler is called.
	ctx            context.Context
	cancel         context.CancelCauseFunc
	started, ended time.Time
	tries          int
}

// try asks the handler until it has a verdict, its time is over, or it was asked often enough.
func (p *Prober) try(a *attempt) (out Outcome, err error) {
	a.started = time.Now()
	ctx, cancel := context.WithTimeout(a.ctx, a.timeout)
	defer cancel()
	for a.tries < p.options.Tries && (a.tries == 0 || err != nil && ctx.Err() == nil) {
		a.tries++
		out, err = p.options.Handler.Probe(ctx, a.target)
	}
	a.ended = time.Now()
	switch {
	case err == nil:
		out.Verdict = cmp.Or(out.Verdict, VerdictFailure)
		out.Output = LimitOutput(out.Output)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out, err = Outcome{Verdict: VerdictFailure, Output: fmt.Sprintf("timed out after %s", a.timeout)}, nil
	default:
		out = Outcome{}
	}
	return out, err
}

func (a *attempt) report(out Outcome, err error, j judgement, t tally) Attempt {
	return Attempt{
		Target: a.target, Verdict: out.Verdict, Output: out.Output, Err: err, Tries: a.tries,
		Result: t.published, Published: j.published, Run: int(j.run), Threshold: int(j.threshold), Repeated: j.repeated,
		Due: a.due, Started: a.started, Ended: a.ended,
	}
}

// report tells the hook, the events and the log of an attempt.
func (p *Prober) report(a Attempt) {
	if p.options.OnAttempt != nil {
		p.options.OnAttempt(a)
	}
	if p.options.Events != nil {
		if e, ok := eventOf(a); ok {
			p.options.Events.Event(reference(a.Target), e.eventType, e.reason, e.message)
		}
	}
	if !a.Published && (a.Err == nil || a.Repeated) {
		return
	}
	t := a.Target
	fields := []zap.Field{
		zap.String("pod", t.Pod.Namespace+"/"+t.Pod.Name), zap.String("podUID", string(t.Pod.UID)),
		zap.String("container", t.Container.Name), zap.String("containerID", t.Instance.ID),
		zap.Stringer("probe", t.Type),
	}
	if a.Published {
		p.options.Logger.Info("Probe result changed", append(fields, zap.Stringer("result", a.Result))...)
		return
	}
	p.options.Logger.Warn("Probe attempt has no verdict", append(fields, zap.Error(a.Err))...)
}
