// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"cmp"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Prober probes container instances while Run runs, and knows what came of it. All methods are safe for concurrent
// use and none of them waits for an attempt. Before Run they only record; after Run has ended they change nothing.
//
// A container that is not in the pod's spec, and plain init and ephemeral containers, are never probed: calls about
// them do nothing.
type Prober struct {
	options Options
	// wake has room for one value: something is due earlier than the scheduler thinks.
	wake chan struct{}
	// told has room for one value: there is news for the sink.
	told chan struct{}
	// pending counts the goroutines of Run.
	pending sync.WaitGroup

	mu struct {
		sync.Mutex
		registry
		life    life
		network pool
		exec    pool
		// armed is when the scheduler looks next by itself.
		armed time.Time
	}
}

// life is where a Prober stands.
type life uint8

const (
	lifeNew life = iota
	lifeRunning
	lifeStopped
)

// New returns a Prober that records what there is to probe, and probes once Run is called. The error names the field
// of o that cannot be used.
func New(o Options) (*Prober, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Prober{options: o, wake: make(chan struct{}, 1), told: make(chan struct{}, 1)}
	p.mu.registry = newRegistry()
	p.mu.network.limit = o.Concurrency
	p.mu.exec.limit = o.ExecConcurrency
	return p, nil
}

// Start says that a container instance has begun to run: call it as soon as it does. Its first attempt is due exactly
// InitialDelaySeconds after in.StartedAt, of readiness and liveness not before the startup probe has succeeded.
//
// Calling it again for an instance changes nothing but its PodIP. An earlier instance of the container is gone: its
// attempts are cancelled and its results dropped. A call that comes too late, about that earlier instance, does
// nothing.
func (p *Prober) Start(pod *v1.Pod, container string, in Instance) {
	if pod == nil || in.ID == "" {
		return
	}
	c := probed(pod, container)
	if c == nil {
		return
	}
	a := p.arrival(pod, c, in)
	p.change(func(r *registry, now time.Time) { r.arrive(r.record(pod), a, now) })
}

// Stop ends kinds of probes of one instance and cancels their attempts in flight, whose results count for nothing. What
// was established stays, until the instance is gone. An unknown ID is ignored, so that a late Stop never touches the
// next instance. There is no way back: a later AddPod does not begin them again.
func (p *Prober) Stop(id string, kinds Type) {
	p.change(func(r *registry, _ time.Time) {
		if in, ok := r.ids[id]; ok {
			r.stop(in, kinds)
		}
	})
}

// AddPod says what runs of a pod, by container name, at every sync. It makes up for whatever Start and Stop missed: an
// instance that does not run any more is forgotten with its results; one that is new is begun; probes whose spec has
// changed in the pod go on with the new one, keeping what is established. A nil map means that it is not known what
// runs; then only specs are looked at. Running makes the map from a v1.PodStatus.
//
// Neither liveness nor startup is probed of a pod that has a deletion timestamp, as after StopLivenessAndStartup.
//
// The Prober keeps the pod, which nobody may write, until it is given a newer one.
func (p *Prober) AddPod(pod *v1.Pod, running map[string]Instance) {
	if pod == nil {
		return
	}
	var arrivals []arrival
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			if probed(pod, c.Name) == c {
				arrivals = append(arrivals, p.arrival(pod, c, running[c.Name]))
			}
		}
	}
	p.change(func(r *registry, now time.Time) {
		if _, known := r.pods[pod.UID]; !known && len(running) == 0 {
			return
		}
		rec := r.record(pod)
		for _, a := range arrivals {
			r.observe(rec, a, running != nil, now)
		}
	})
}

// observe is one container of a pod that is added.
func (r *registry) observe(rec *podRecord, a arrival, known bool, now time.Time) {
	if a.ID != "" {
		r.arrive(rec, a, now)
		return
	}
	_, in := rec.find(a.container.Name)
	switch {
	case in == nil:
	case known:
		r.drop(in)
	default:
		r.respec(in, a.configs, now)
	}
}

// arrival asks the caller's functions, without the lock.
func (p *Prober) arrival(pod *v1.Pod, c *v1.Container, in Instance) arrival {
	var tune tuneFunc
	if p.options.Tune != nil {
		tune = func(c *v1.Container, t Type, spec Timing) Timing { return p.options.Tune(pod, c, t, spec) }
	}
	a := arrival{Instance: in, container: c, configs: configsOf(c, tune)}
	if !in.Adopted {
		return a
	}
	for slot, config := range a.configs {
		if period := config.timing.Period; config.spec != nil {
			a.spread[slot] = min(max(p.options.Jitter(period), 0), period)
		}
	}
	return a
}

// StopLivenessAndStartup is for a pod that is being terminated: it ends these probes for all of its containers, also
// sidecars. Readiness goes on, so that the pod can become unready. There is no way back.
func (p *Prober) StopLivenessAndStartup(uid types.UID) {
	p.change(func(r *registry, _ time.Time) {
		if rec, ok := r.pods[uid]; ok {
			r.stopPod(rec, Liveness|Startup)
		}
	})
}

// RemovePod ends all probes of a pod and forgets it with its results. Call it when no container of the pod runs.
func (p *Prober) RemovePod(uid types.UID) {
	p.change(func(r *registry, _ time.Time) { r.removePod(uid) })
}

// CleanupPods removes every pod that keep says no to. keep is called once per pod, without a lock held; a pod that is
// added meanwhile is not asked about.
func (p *Prober) CleanupPods(keep func(types.UID) bool) {
	p.mu.Lock()
	known := make([]*podRecord, 0, len(p.mu.pods))
	for _, rec := range p.mu.pods {
		known = append(known, rec)
	}
	uids := make([]types.UID, len(known))
	for i, rec := range known {
		uids[i] = rec.object.UID
	}
	p.mu.Unlock()
	for i, uid := range uids {
		if keep(uid) {
			continue
		}
		p.change(func(r *registry, _ time.Time) {
			if r.pods[uid] == known[i] {
				r.removePod(uid)
			}
		})
	}
}

// Result returns what a probe has established about an instance. False: the instance is not known to run, or has no
// such probe.
func (p *Prober) Result(id string, kind Type) (Result, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.result(id, kind)
}

// change applies f to the registry, then does what has to be done outside the lock.
func (p *Prober) change(f func(r *registry, now time.Time)) {
	now := time.Now()
	p.mu.Lock()
	if p.mu.life == lifeStopped {
		p.mu.Unlock()
		return
	}
	f(&p.mu.registry, now)
	cancels := p.mu.cancels
	p.mu.cancels = nil
	p.rouse()
	p.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
}

// rouse wakes those who have something to do since the lock was taken. The lock is held.
func (p *Prober) rouse() {
	if first := p.mu.agenda.first(); first != nil && first.due.Before(p.mu.armed) {
		p.mu.armed = first.due
		signal(p.wake)
	}
	if p.mu.news.len() > 0 {
		signal(p.told)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// State is one probe of one instance, for people and tests.
type State struct {
	Pod           types.NamespacedName
	PodUID        types.UID
	Container, ID string
	Type          Type
	Stage         Stage
	Result        Result
	// Run is how many attempts in a row had the same outcome; Errors how many in a row had none, Errored how many
	// ever.
	Run, Errors, Errored int
	// Due is when the next attempt is due, or the one under way was; zero if there is none.
	Due time.Time
}

// Snapshot returns every probe, by pod, container and kind. It is the caller's.
func (p *Prober) Snapshot() []State {
	p.mu.Lock()
	var all []State
	for _, in := range p.mu.ids {
		for _, pr := range in.probes {
			if pr != nil {
				all = append(all, pr.state())
			}
		}
	}
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name),
			cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container), cmp.Compare(b.Type, a.Type))
	})
	return all
}

func (p *probe) state() State {
	u := p.update()
	s := State{
		Pod: u.Pod, PodUID: u.PodUID, Container: u.Container, ID: u.ID, Type: u.Type, Stage: p.stage, Result: u.Result,
		Run: int(p.tally.run), Errors: int(p.tally.errors), Errored: int(p.tally.errored),
	}
	if p.stage == StageWaiting || p.stage == StageQueued || p.stage == StageRunning {
		s.Due = p.due
	}
	return s
}
