// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Why an attempt in flight is cancelled.
var (
	errStopped    = errors.New("the probe was stopped")
	errSuperseded = errors.New("the probe's spec has changed")
)

// registry is everything a Prober knows: which instances there are, what was established about them, and what is due
// when. It has no lock, no clock and no goroutine; what it wants done outside it leaves in cancels.
type registry struct {
	pods   map[types.UID]*podRecord
	ids    map[string]*instance
	agenda agenda // probes in StageWaiting
	news   line   // probes whose result the sink may not know
	// cancels are to be called once the lock is released.
	cancels []func()
	ranks   uint32
}

func newRegistry() registry {
	return registry{pods: map[types.UID]*podRecord{}, ids: map[string]*instance{}}
}

// arrival is an instance that runs, with everything that only the caller's functions could tell.
type arrival struct {
	Instance
	container *v1.Container
	configs   configs
	spread    [slots]time.Duration // of the first attempt, if adopted
}

// record returns the pod's record, made if there is none, as of pod.
func (r *registry) record(pod *v1.Pod) *podRecord {
	rec, ok := r.pods[pod.UID]
	if !ok {
		rec = &podRecord{}
		r.pods[pod.UID] = rec
	}
	r.refresh(rec, pod)
	return rec
}

// refresh takes over a newer version of a pod.
func (r *registry) refresh(rec *podRecord, pod *v1.Pod) {
	if rec.object == pod {
		return
	}
	rec.object = pod
	for i := 0; i < len(rec.instances); i++ {
		in := rec.instances[i]
		if c := probed(pod, in.container.Name); c != nil {
			in.container = c
			continue
		}
		r.drop(in)
		i--
	}
	if pod.DeletionTimestamp != nil {
		r.stopPod(rec, Liveness|Startup)
	}
}

// arrive takes in an instance, or what changed about one that is known. Another instance of the container is gone then,
// unless it is known to be the later one.
func (r *registry) arrive(rec *podRecord, a arrival, now time.Time) {
	_, present := rec.find(a.container.Name)
	switch {
	case present == nil && r.ids[a.ID] != nil: // somebody else's
	case present == nil:
		r.begin(rec, a, "", now)
	case present.ID == a.ID:
		r.renew(present, a, now)
	case present.previous == a.ID: // an old story
	case r.ids[a.ID] == nil:
		r.drop(present)
		r.begin(rec, a, present.ID, now)
	}
}

// begin makes the record of an instance and its probes.
func (r *registry) begin(rec *podRecord, a arrival, previous string, now time.Time) {
	in := &instance{
		Instance: a.Instance, pod: rec, container: a.container, previous: previous, stopped: rec.stopped,
	}
	rec.instances = append(rec.instances, in)
	r.ids[in.ID] = in
	for slot, kind := range order {
		if c := a.configs[slot]; c.spec != nil {
			gated := kind != Startup && !in.open()
			in.probes[slot] = r.newProbe(in, kind, c, initial(kind, a.Instance, gated))
		}
	}
	r.open(in, func(p *probe, slot int) time.Time {
		if a.Adopted {
			return adoptedDue(now, in.StartedAt, p.config.timing.InitialDelay, a.spread[slot])
		}
		return firstDue(now, in.StartedAt, p.config.timing.InitialDelay)
	})
}

// newProbe makes a probe that knows what the sink knows.
func (r *registry) newProbe(in *instance, kind Type, c config, known Result) *probe {
	r.ranks++
	p := &probe{instance: in, kind: kind, config: c, told: known, index: notListed, rank: r.ranks}
	p.tally.published = known
	switch {
	case in.stopped&kind != 0:
		p.stage = StageStopped
	case final(kind, known):
		p.stage = StageOver
	}
	return p
}

// open lets every probe that may act wait for the time that due says. The startup probe always may; the others once
// it has succeeded.
func (r *registry) open(in *instance, due func(p *probe, slot int) time.Time) {
	for slot, p := range in.probes {
		if p == nil || p.stage != StageGated || slot != slotStartup && !in.open() {
			continue
		}
		r.wait(p, due(p, slot))
	}
}

// wait puts p on the agenda.
func (r *registry) wait(p *probe, due time.Time) {
	p.stage, p.due = StageWaiting, due
	r.agenda.push(p)
}

// renew takes over what changed about an instance: the pod's address, or the specs of its probes.
func (r *registry) renew(in *instance, a arrival, now time.Time) {
	if in.PodIP == "" && a.PodIP != "" {
		r.hurry(in, now)
	}
	in.PodIP = a.PodIP
	r.respec(in, a.configs, now)
}

// hurry repeats at once what had no verdict, now that there is an address.
func (r *registry) hurry(in *instance, now time.Time) {
	for _, p := range in.probes {
		if p != nil && p.stage == StageWaiting && p.tally.errors > 0 {
			p.due = now
			r.agenda.fix(p)
		}
	}
}

// respec brings the probes of an instance to what its container's spec says now. A probe that is new takes over how
// the container counted without it. The verdict on a doomed instance stands.
func (r *registry) respec(in *instance, all configs, now time.Time) {
	wasOpen := in.open()
	for slot, kind := range order {
		old, c := in.probes[slot], all[slot]
		switch {
		case old == nil && c.spec == nil, old != nil && c.spec != nil && old.config.same(c):
			continue
		case c.spec == nil:
			r.end(old, errSuperseded)
			in.probes[slot] = nil
		case old == nil:
			in.probes[slot] = r.newProbe(in, kind, c, before(kind, wasOpen))
		default:
			r.replace(in, slot, c, now)
		}
	}
	r.open(in, func(p *probe, _ int) time.Time { return firstDue(now, in.StartedAt, p.config.timing.InitialDelay) })
}

// before is the result of a probe that a running container did not have so far: without it, it was alive, and started
// and ready once it was open.
func before(kind Type, open bool) Result {
	switch {
	case kind == Liveness || open:
		return Success
	case kind == Startup:
		return Unknown
	}
	return Failure
}

// replace gives the probe in slot another config: what is established stays, the run of attempts begins anew.
func (r *registry) replace(in *instance, slot int, c config, now time.Time) {
	old := in.probes[slot]
	if old.stage.ended() || final(old.kind, old.tally.published) {
		old.config = c
		return
	}
	p := r.newProbe(in, old.kind, c, old.tally.published)
	p.told, p.stage = old.told, old.stage
	in.probes[slot] = p
	if old.news {
		r.announce(p)
	}
	was := now
	if old.stage == StageWaiting {
		was = old.due
	}
	r.end(old, errSuperseded)
	if p.stage != StageGated {
		r.wait(p, changedDue(now, was, in.StartedAt, c.timing))
	}
}

// announce lets the sink know of p's result.
func (r *registry) announce(p *probe) {
	if !p.news {
		p.news = true
		r.news.push(p)
	}
}

// end stops one probe for good; its result stays.
func (r *registry) end(p *probe, cause error) {
	switch p.stage {
	case StageWaiting:
		r.agenda.remove(p)
	case StageRunning:
		if cancel := p.cancel; cancel != nil {
			r.cancels = append(r.cancels, func() { cancel(cause) })
		}
	}
	p.stage, p.cancel = StageStopped, nil
}

// stop ends kinds of probes of an instance, also those that it may get later.
func (r *registry) stop(in *instance, kinds Type) {
	in.stopped |= kinds
	for _, p := range in.probes {
		if p != nil && kinds&p.kind != 0 {
			r.end(p, errStopped)
		}
	}
}

func (r *registry) stopPod(rec *podRecord, kinds Type) {
	rec.stopped |= kinds
	for _, in := range rec.instances {
		r.stop(in, kinds)
	}
}

// drop forgets an instance with all that was established about it.
func (r *registry) drop(in *instance) {
	r.stop(in, All)
	delete(r.ids, in.ID)
	in.pod.instances = slices.DeleteFunc(in.pod.instances, func(other *instance) bool { return other == in })
}

func (r *registry) removePod(uid types.UID) {
	rec, ok := r.pods[uid]
	if !ok {
		return
	}
	for _, in := range slices.Clone(rec.instances) {
		r.drop(in)
	}
	delete(r.pods, uid)
}

// result is what is established about a running instance.
func (r *registry) result(id string, kind Type) (Result, bool) {
	in, ok := r.ids[id]
	if !ok {
		return Unknown, false
	}
	for slot, one := range order {
		if one == kind && in.probes[slot] != nil {
			return in.probes[slot].tally.published, true
		}
	}
	return Unknown, false
}

// take moves what is due from the agenda to give.
func (r *registry) take(now time.Time, give func(*probe)) {
	for p := r.agenda.first(); p != nil && !p.due.After(now); p = r.agenda.first() {
		r.agenda.remove(p)
		p.stage = StageQueued
		give(p)
	}
}

// start begins an attempt; cancel ends its context.
func (p *probe) start(cancel context.CancelCauseFunc) {
	p.stage, p.cancel = StageRunning, cancel
}

// settle counts the attempt in flight. False: it counts for nothing, because the probe was stopped meanwhile.
func (r *registry) settle(p *probe, v Verdict, tolerate int, now time.Time) (judgement, bool) {
	if p.stage != StageRunning {
		return judgement{}, false
	}
	p.cancel = nil
	j := p.tally.count(v, p.config, tolerate)
	if !j.published {
		return j, true
	}
	r.announce(p)
	if p.kind == Startup && j.counted == Success {
		in := p.instance
		r.open(in, func(p *probe, _ int) time.Time { return firstDue(now, in.StartedAt, p.config.timing.InitialDelay) })
	}
	return j, true
}

// release ends the attempt in flight: the probe waits for its next, or is over.
func (r *registry) release(p *probe, began, now time.Time) {
	switch {
	case p.stage != StageRunning:
	case final(p.kind, p.tally.published):
		p.stage = StageOver
	default:
		r.wait(p, nextDue(p.due, began, now, p.config.timing.Period))
	}
}

// tell returns the next update that the sink does not know.
func (r *registry) tell() (Update, bool) {
	for {
		p, ok := r.news.pop()
		if !ok {
			return Update{}, false
		}
		p.news = false
		if p.stage != StageStopped && p.told != p.tally.published {
			p.told = p.tally.published
			return p.update(), true
		}
	}
}
