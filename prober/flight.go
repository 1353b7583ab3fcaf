// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// overrun is the time from the deadline of an attempt until the attempt is judged without its
	// handler. Handlers that respect their context return earlier.
	overrun = 100 * time.Millisecond
	// mostAbandoned is the number of cancelled attempts of one kind of probe of a container that
	// may remain in progress when the next attempt begins.
	mostAbandoned = 2
)

// seat identifies the kind of probe and the container for mostAbandoned. A seat outlives the
// container's instances.
type seat struct {
	pod       types.UID
	container string
	kind      Type
}

func (p *probe) seat() seat {
	return seat{p.instance.pod.object.UID, p.instance.container.Name, p.kind}
}

// crowded reports whether an attempt of p is refused, because too many cancelled attempts have not
// returned.
func (r *registry) crowded(p *probe) bool {
	return r.out[p.seat()] >= mostAbandoned
}

// take removes due probes from the agenda. Overdue attempts go to r.overdue, refused probes to
// r.refused, and all others to give.
func (r *registry) take(now time.Time, give func(*probe)) {
	for p := r.agenda.first(); p != nil && !p.due.After(now); p = r.agenda.first() {
		r.agenda.remove(p)
		if p.stage == StageRunning {
			r.overdue = append(r.overdue, p)
			continue
		}
		p.stage = StageQueued
		if r.crowded(p) {
			r.refused = append(r.refused, p)
			continue
		}
		give(p)
	}
}

// start begins an attempt.
func (r *registry) start(a *attempt) {
	p := a.probe
	p.stage, p.flight = StageRunning, a
	p.due = a.started.Add(a.timeout + overrun)
	r.agenda.push(p)
}

// newAttempt is the next attempt of p.
func newAttempt(p *probe, now time.Time) *attempt {
	return &attempt{
		probe: p, target: p.target(), due: p.due, timeout: p.config.timing.Timeout, started: now, place: noPlace,
	}
}

// settle counts the verdict v of a returned handler. False means no effect, because the probe was
// stopped or the attempt was already judged. After true, the caller reports the attempt and
// releases it.
func (r *registry) settle(a *attempt, v Verdict, tolerate int, now time.Time) (judgement, bool) {
	was := a.phase
	a.phase = phaseReturned
	switch {
	case was == phaseAbandoned:
		r.returned(a)
	case was == phaseFlying:
		r.unlist(a.probe)
		a.counting = true
		return r.count(a.probe, v, tolerate, now), true
	case !a.counting:
		r.unlist(a.probe)
		r.release(a, now)
	}
	return judgement{}, false
}

// settleOverdue counts the next overdue attempt as failed and returns the attempt, or nil. The
// caller reports the attempt and releases it.
func (r *registry) settleOverdue(now time.Time) (*attempt, judgement) {
	for len(r.overdue) > 0 {
		p := pop(&r.overdue)
		a := p.flight
		if a == nil || a.counting || p.index != notListed {
			continue // the handler has returned meanwhile
		}
		a.phase, a.counting = phaseOverdue, true
		return a, r.count(p, VerdictFailure, 0, now)
	}
	return nil, judgement{}
}

// settleRefused counts the next refused attempt as an attempt without a verdict and returns the
// attempt, or nil. The caller reports the attempt and releases it.
func (r *registry) settleRefused(tolerate int, now time.Time) (*attempt, judgement) {
	for len(r.refused) > 0 {
		p := pop(&r.refused)
		if p.stage != StageQueued {
			continue // the probe was stopped meanwhile
		}
		a := newAttempt(p, now)
		a.phase, a.counting = phaseReturned, true
		p.stage, p.flight = StageRunning, a
		return a, r.count(p, VerdictNone, tolerate, now)
	}
	return nil, judgement{}
}

// pop removes and returns the first probe of a non-empty list. The list's array keeps no pointer to
// the probe.
func pop(list *[]*probe) *probe {
	p := (*list)[0]
	(*list)[0] = nil
	*list = (*list)[1:]
	return p
}

// count adds a verdict to the tally of p. If the result changed, count queues an update and opens
// gated probes.
func (r *registry) count(p *probe, v Verdict, tolerate int, now time.Time) judgement {
	j := p.tally.count(v, p.config, tolerate)
	if !j.published {
		return j
	}
	r.news.push(p)
	in := p.instance
	r.open(in, func(p *probe, _ int) time.Time { return firstDue(now, in.StartedAt, p.config.timing.InitialDelay) })
	return j
}

// release ends the reporting phase begun by settle. The probe waits for its next attempt or is
// over. While the handler has not returned, each further period is another failure.
func (r *registry) release(a *attempt, now time.Time) {
	p := a.probe
	a.counting = false
	switch {
	case p.flight != a: // stopped meanwhile
	case final(p.kind, p.tally.published):
		r.abandon(a)
		p.stage, p.flight = StageOver, nil
	case a.phase == phaseReturned:
		p.flight = nil
		r.wait(p, nextDue(a.due, a.started, now, p.config.timing.Period))
	default:
		p.due = now.Add(max(p.config.timing.Period, a.timeout))
		r.agenda.push(p)
	}
}

// abandon marks a as abandoned. False means that the handler has already returned.
func (r *registry) abandon(a *attempt) bool {
	if a.phase == phaseReturned {
		return false
	}
	a.phase = phaseAbandoned
	a.seat = a.probe.seat()
	r.out[a.seat]++
	return true
}

// returned records the return of the handler of an abandoned attempt.
func (r *registry) returned(a *attempt) {
	if r.out[a.seat]--; r.out[a.seat] == 0 {
		delete(r.out, a.seat)
	}
}

// unlist removes p from the agenda, if present.
func (r *registry) unlist(p *probe) {
	if p.index != notListed {
		r.agenda.remove(p)
	}
}
