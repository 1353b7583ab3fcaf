// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"
)

// Sim is a run of a simulation in virtual time. It is for a single goroutine.
type Sim struct {
	opts      Options
	snapshot  *Snapshot
	scheduler *Scheduler
	queue     *Queue
	backend   Backend
	agenda    agenda
	journal   *journal
	record    *recorder
	rand      *rand.Rand

	now       time.Duration
	wakeAt    time.Duration // of the next tick of the queue
	uids      uint64
	expecting int // bound pods of which the backend will yield an event
	waiting   []*permitWait
	out       []Event // for Step
	read      int     // events of out that Step has returned
	next      func() (Arrival, error, bool)
	stop      func()
	over      bool
	err       error
	final     *Report // at the end of a run with a journal
}

// New returns a Sim at the instant 0. Call Run, or Step until it returns false.
func New(o Options) (*Sim, error) {
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	s := &Sim{opts: o, wakeAt: Never, rand: rand.New(rand.NewPCG(o.Seed, 1))}
	if s.snapshot, err = NewSnapshot(o.Nodes); err != nil {
		return nil, fmt.Errorf("sim: Options.Nodes: %w", err)
	}
	if s.scheduler, err = NewScheduler(s.snapshot, o.Profile, rand.New(rand.NewPCG(o.Seed, 2))); err != nil {
		return nil, err
	}
	s.scheduler.waiting = s.waitingPods
	s.queue = newQueue(&s.scheduler.profile)
	if s.backend, err = o.Backend(BackendInput{Snapshot: s.snapshot, Model: o.Model}); err != nil {
		return nil, err
	}
	s.journal = newJournal(o.Journal)
	s.record = newRecorder(s)
	s.next, s.stop = iter.Pull2(o.Workload.Arrivals())
	s.journal.head(s)
	s.fetch()
	s.planFaults()
	for _, c := range o.Controllers {
		c.Start(&Control{s})
	}
	return s, nil
}

// Run runs the simulation to its end, and returns the report. After an end of ctx the report covers
// the time until then, and the error is that of ctx.
func (s *Sim) Run(ctx context.Context) (*Report, error) {
	for i := 0; ; i++ {
		if i%1024 == 0 && ctx.Err() != nil {
			s.finish(ctx.Err())
			break
		}
		if !s.advance() {
			break
		}
		s.out = s.out[:0]
	}
	return s.Report(), s.err
}

// Step returns the next event; false at the end of the run. Err returns the reason of an early end.
func (s *Sim) Step() (Event, bool) {
	for s.read == len(s.out) {
		s.out, s.read = s.out[:0], 0
		if !s.advance() {
			return Event{}, false
		}
	}
	s.read++
	return s.out[s.read-1], true
}

// Err returns the error that ended the run early, or nil.
func (s *Sim) Err() error { return s.err }

// Snapshot returns the present state. The caller does not write to it.
func (s *Sim) Snapshot() *Snapshot { return s.snapshot }

// advance does the next piece of work; false at the end of the run.
func (s *Sim) advance() bool {
	if s.over {
		return false
	}
	if s.stuck() {
		s.finish(nil)
		return false
	}
	due := min(s.agenda.next(), s.wakeAt)
	if s.queue.ready() {
		due = min(due, s.now)
	}
	e, found, err := s.backend.Next(min(due, s.opts.Until))
	switch {
	case err != nil:
		s.finish(err)
		return false
	case found:
		s.pass(e.At)
		s.observe(e)
	case due > s.opts.Until || due == Never:
		s.finish(nil)
		return false
	default:
		s.pass(due)
		s.own()
	}
	return !s.over
}

// own carries out the steps of the Sim's own plan that are due.
func (s *Sim) own() {
	switch {
	case s.agenda.next() <= s.now:
		s.agenda.run()
	case s.wakeAt <= s.now:
		s.queue.tick(s.now)
		s.wakeAt = s.queue.wake()
	default:
		s.schedule()
	}
}

// stuck reports whether no pod can be placed any more: pods are left, but all are unschedulable,
// and no event will come.
func (s *Sim) stuck() bool {
	activePods, backoffPods, _ := s.queue.Len()
	return s.agenda.len()+s.expecting+activePods+backoffPods+len(s.waiting) == 0
}

// pass moves the time forward.
func (s *Sim) pass(to time.Duration) {
	if to > s.now {
		s.record.pass(to)
		s.now = to
	}
}

// finish ends the run.
func (s *Sim) finish(err error) {
	s.over = true
	if s.opts.Until != Never && err == nil {
		s.pass(s.opts.Until)
	}
	s.stop()
	s.err = err
	if s.journal != nil {
		s.final = s.record.finish()
		s.err = errors.Join(err, s.journal.end(s.final))
	}
}

// fail ends the run because of an error of the workload or the backend.
func (s *Sim) fail(err error) {
	if err != nil && !s.over {
		s.finish(err)
	}
}

// fetch plans the next submission of the workload.
func (s *Sim) fetch() {
	a, err, ok := s.next()
	switch {
	case !ok:
		return
	case err != nil:
		s.fail(fmt.Errorf("sim: workload: %w", err))
	case a.Shape == nil:
		s.fail(fmt.Errorf("sim: workload: the arrival %q has no shape", a.Name))
	case a.At < s.now:
		s.fail(fmt.Errorf("sim: workload: the arrival %q at %v is after an arrival at %v", a.Name, a.At, s.now))
	default:
		s.agenda.add(a.At, func() {
			s.arrive(a)
			s.fetch()
		})
	}
}

// arrive submits the pods of an arrival.
func (s *Sim) arrive(a Arrival) {
	if a.Pods <= 1 {
		s.submit(&Pod{Name: a.Name, Shape: a.Shape, User: a.User, Work: a.Duration})
		return
	}
	gang := &Gang{Name: a.Name, Size: a.Pods, Min: a.MinCount}
	if gang.Min <= 0 || gang.Min > a.Pods {
		gang.Min = a.Pods
	}
	for i := range a.Pods {
		p := &Pod{Name: fmt.Sprintf("%s-%d", a.Name, i), Shape: a.Shape, User: a.User, Work: a.Duration, Gang: gang}
		gang.members = append(gang.members, p)
		s.submit(p)
	}
}

// submit makes a pod known to the scheduler.
func (s *Sim) submit(p *Pod) {
	s.uids++
	p.UID = s.uids
	p.Submitted, p.Bound, p.Pulled, p.Started, p.Ready, p.Ended = s.now, Never, Never, Never, Never, Never
	s.queue.add(p, s.now)
	s.emit(Event{Kind: Submitted, Pod: p})
}

// emit records an event of this instant and passes it to the controllers.
func (s *Sim) emit(e Event) {
	e.At = s.now
	if e.Node == nil && e.Pod != nil {
		e.Node = e.Pod.Node
	}
	s.out = append(s.out, e)
	s.journal.event(e)
	s.record.event(e)
	for _, c := range s.opts.Controllers {
		c.Handle(&Control{s}, e)
	}
}

// observe handles an event of the backend.
func (s *Sim) observe(e Event) {
	p := e.Pod
	switch e.Kind {
	case Pulled:
		p.Pulled = s.now
	case Started:
		p.Started, p.Phase = s.now, Running
		s.record.start(p)
	case ReadyNow:
		before := s.expected(p)
		p.Ready = s.now
		s.expecting += s.expected(p) - before
	case Ended:
		s.ended(p)
		return
	}
	s.emit(e)
}

// ended handles the end of a bound pod.
func (s *Sim) ended(p *Pod) {
	s.expecting -= s.expected(p)
	p.Ended = s.now
	s.record.end(p)
	node := p.Node
	p.Phase = Succeeded
	if p.evicting {
		p.Phase = Failed
	}
	s.snapshot.Forget(p)
	if p.Gang != nil {
		p.Gang.Placed--
	}
	s.emit(Event{Kind: Ended, Pod: p, Node: node, Text: p.cause})
	if v := p.victimOf; v != nil && v.queued.victims > 0 {
		v.queued.victims--
		if v.queued.victims == 0 && v.queued.place == unschedulable {
			s.queue.release(v, s.now)
		}
	}
	s.changed(ClusterEvent{Kind: PodGone, Pod: p, Node: node})
}

// changed lets the queue try pods again.
func (s *Sim) changed(e ClusterEvent) {
	s.queue.event(e, s.now)
	s.wakeAt = min(s.wakeAt, s.queue.wake())
}
