// SPDX-License-Identifier: Apache-2.0

package prober

import (
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

// registry is the state of a Prober: the instances, their results, and the schedule. It has no
// lock, no clock and no goroutine. Functions to call outside the lock are collected in cancels.
type registry struct {
	pods   map[types.UID]*podRecord
	ids    map[string]*instance
	agenda agenda // probes in StageWaiting and StageRunning
	news   line   // probes with a result not yet passed to the sink
	// overdue and refused are probes with attempts to judge without a handler; settleOverdue and
	// settleRefused check each attempt again.
	overdue, refused []*probe
	// out counts the abandoned attempts that have not returned.
	out map[seat]int
	// cancels are to be called once the lock is released.
	cancels []func()
	ranks   uint32
}

func newRegistry() registry {
	return registry{
		pods: map[types.UID]*podRecord{}, ids: map[string]*instance{}, out: map[seat]int{},
		news: line{kind: lineNews},
	}
}

// arrival is a running instance, with the results of the caller's functions.
type arrival struct {
	Instance
	container *v1.Container
	configs   configs
	spread    [slots]time.Duration // of the first attempt, if adopted, else 0
}

// record returns the record of the pod, updated with pod. A missing record is created.
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
	rec.object = pod
	for _, in := range slices.Clone(rec.instances) {
		if c := probed(pod, in.container.Name); c != nil {
			in.container = c
			continue
		}
		r.drop(in)
	}
	if pod.DeletionTimestamp != nil {
		r.stopPod(rec, Liveness|Startup)
	}
}

// arrive records a new instance, or changes of a known instance. An instance with another ID
// replaces the present instance, unless the call is outdated.
func (r *registry) arrive(rec *podRecord, a arrival, from source, now time.Time) {
	name := a.container.Name
	present := rec.find(name)
	switch {
	case present != nil && present.ID == a.ID:
		if l := rec.pasts[name]; l != nil && from == sourceSync {
			l.confirm()
		}
		r.renew(present, a, now)
	case r.ids[a.ID] != nil: // the ID of another container
	case present == nil:
		r.begin(rec, a, now)
	case !rec.past(name).outdated(a.ID, from):
		rec.past(name).follow(present.ID, a.ID)
		r.drop(present)
		r.begin(rec, a, now)
	}
}

// begin creates the record of an instance and its probes.
func (r *registry) begin(rec *podRecord, a arrival, now time.Time) {
	in := &instance{
		Instance: a.Instance, pod: rec, container: a.container, stopped: rec.stopped,
	}
	rec.instances = append(rec.instances, in)
	r.ids[in.ID] = in
	for slot, kind := range order {
		if c := a.configs[slot]; c.spec != nil {
			in.probes[slot] = r.newProbe(in, kind, c, initial(kind, a.Instance, !in.open()))
		}
	}
	r.open(in, func(p *probe, slot int) time.Time {
		return adoptedDue(now, in.StartedAt, p.config.timing.InitialDelay, a.spread[slot])
	})
}

// newProbe creates a probe whose result known is already known to the sink.
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

// open schedules every gated probe that may run, at the time returned by due. A startup probe may
// always run; readiness and liveness only after its success.
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

// renew applies changes of an instance: the pod's address, or the specs of its probes.
func (r *registry) renew(in *instance, a arrival, now time.Time) {
	if in.PodIP == "" && a.PodIP != "" {
		r.hurry(in, now)
	}
	in.PodIP = a.PodIP
	r.respec(in, a.configs, now)
}

// hurry makes probes whose last attempts had errors due now, because the pod has an address now.
func (r *registry) hurry(in *instance, now time.Time) {
	for _, p := range in.probes {
		if p != nil && p.stage == StageWaiting && p.tally.errors > 0 {
			p.due = now
			r.agenda.fix(p)
		}
	}
}

// respec applies the container's current spec to the probes of an instance. A new probe begins with
// the result the container had without the probe. The verdict on a doomed instance stands.
func (r *registry) respec(in *instance, all configs, now time.Time) {
	wasOpen := in.open()
	for slot, kind := range order {
		old, c := in.probes[slot], all[slot]
		switch {
		case old == nil && c.spec == nil, old != nil && old.config.same(c):
			// Nothing has changed.
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

// before returns the initial result of a probe added to a running container. Without the probe, the
// container was alive and started, and ready once open.
func before(kind Type, open bool) Result {
	if kind == Readiness && !open {
		return Failure
	}
	return Success
}

// replace gives the probe in slot another config. The result stays, and the run of attempts starts
// again.
func (r *registry) replace(in *instance, slot int, c config, now time.Time) {
	old := in.probes[slot]
	if old.stage == StageStopped || final(old.kind, old.tally.published) {
		old.config = c
		return
	}
	p := r.newProbe(in, old.kind, c, old.tally.published)
	p.told, p.stage = old.told, old.stage
	in.probes[slot] = p
	r.news.push(p) // if old has news
	was := now
	if old.stage == StageWaiting {
		was = old.due
	}
	r.end(old, errSuperseded)
	if p.stage != StageGated {
		r.wait(p, changedDue(now, was, in.StartedAt, c.timing))
	}
}

// end stops one probe for good; its result stays.
func (r *registry) end(p *probe, cause error) {
	switch p.stage {
	case StageWaiting:
		r.agenda.remove(p)
	case StageRunning:
		r.unlist(p)
		if a := p.flight; r.abandon(a) {
			r.cancels = append(r.cancels, func() { a.cancel(cause) })
		}
	}
	p.stage, p.flight = StageStopped, nil
}

// stop ends kinds of probes of an instance, including probes added later.
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

// drop deletes an instance with its results.
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

// result returns the established result of a running instance.
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

// tell returns the next update for the sink.
func (r *registry) tell() (Update, bool) {
	for {
		p := r.news.pop()
		if p == nil {
			return Update{}, false
		}
		if p.stage != StageStopped && p.told != p.tally.published {
			p.told = p.tally.published
			return p.update(), true
		}
	}
}
