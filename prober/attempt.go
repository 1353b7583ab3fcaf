// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Attempt describes an attempt that was counted, for metrics and events.
type Attempt struct {
	Target Target
	// Verdict is VerdictNone if the attempt ended with Err.
	Verdict Verdict
	Output  string // at most MaxOutput bytes of valid UTF-8
	Err     error
	// Tries is how often the handler was asked; more than once only after errors. Tries is 0 if the
	// handler was not called, or has not returned.
	Tries int

	// Result is the published result after the attempt; Published reports whether the attempt
	// changed the result.
	Result    Result
	Published bool
	// Run is the number of consecutive attempts with the same outcome, and Threshold the number
	// required. Both are 0 if the attempt has no effect.
	Run, Threshold int
	// Repeated reports whether the previous attempt had the same Verdict.
	Repeated bool

	Due, Started, Ended time.Time
}

// Lateness is the time from Due until the attempt began.
func (a Attempt) Lateness() time.Duration { return a.Started.Sub(a.Due) }

// Duration is how long the attempt took, all tries together.
func (a Attempt) Duration() time.Duration { return a.Ended.Sub(a.Started) }

// phase is the stage of an attempt.
type phase uint8

const (
	phaseFlying    phase = iota // the handler has not returned
	phaseOverdue                // the deadline has passed, the attempt was judged, and the handler has not returned
	phaseAbandoned              // the probe has ended, and the handler has not returned
	phaseReturned
)

// noPlace is the place of an attempt outside the pool.
const noPlace = -1

// attempt is an attempt in progress. The goroutine of the attempt owns began, ended and tries until
// the handler has returned; the rest is guarded by the Prober's lock.
type attempt struct {
	probe  *probe
	pool   *pool
	target Target
	due    time.Time
	// timeout is for all tries together.
	timeout time.Duration
	// ctx is cancelled with cancel; the timeout is set when the handler is called.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time
	place   int  // in the pool, or noPlace
	seat    seat // of an abandoned attempt
	phase   phase
	// counting: a goroutine reports a verdict of the attempt and will release the attempt.
	counting bool

	began, ended time.Time
	tries        int
}

// try calls the handler until the handler returns a verdict, the timeout expires, or the limit of
// tries is reached.
func (p *Prober) try(a *attempt) (Outcome, error) {
	a.began = time.Now()
	ctx, cancel := context.WithTimeout(a.ctx, a.timeout)
	defer cancel()
	var out Outcome
	var err error
	for a.tries < maxTries && (a.tries == 0 || err != nil && ctx.Err() == nil) {
		a.tries++
		out, err = p.options.Handler.Probe(ctx, a.target)
	}
	a.ended = time.Now()
	return judged(out, err, a.ended.Sub(a.began), a.timeout)
}

// judged converts the result of a handler call that took the given time. After the deadline the
// attempt is a failure, with the handler's output if the handler itself reported a failure.
func judged(out Outcome, err error, took, timeout time.Duration) (Outcome, error) {
	switch late := took >= timeout; {
	case late && (err != nil || out.Verdict != VerdictFailure):
		return timedOut(timeout), nil
	case err != nil:
		return Outcome{}, err
	case out.Verdict > VerdictFailure:
		return Outcome{}, fmt.Errorf("the handler returned a verdict that does not exist: %d", out.Verdict)
	case out.Verdict == VerdictNone:
		out.Verdict = VerdictFailure
	}
	out.Output = LimitOutput(out.Output)
	return out, nil
}

func timedOut(after time.Duration) Outcome {
	return Outcome{Verdict: VerdictFailure, Output: fmt.Sprintf("timed out after %s", after)}
}

// errCrowded is the error of an attempt refused because of abandoned attempts.
var errCrowded = errors.New("the handler was not asked: it has not returned from earlier attempts that were cancelled")

// report returns the Attempt for out and err.
func (a *attempt) report(out Outcome, err error, j judgement, began, ended time.Time) Attempt {
	return Attempt{
		Target: a.target, Verdict: out.Verdict, Output: out.Output, Err: err,
		Result: a.probe.tally.published, Published: j.published,
		Run: int(j.run), Threshold: int(j.threshold), Repeated: j.repeated,
		Due: a.due, Started: began, Ended: ended,
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
