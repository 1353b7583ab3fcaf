// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"cmp"
	"sync"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/dirty"
	"github.com/keelson-dev/keelson/internal/lifecycle"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/internal/sorted"
)

// Prober probes container instances while Run runs, and stores the results. All methods are safe
// for concurrent use and do not wait for attempts. Before Run, methods only record; after Run has
// ended, methods change nothing.
//
// Containers missing from the pod's spec, plain init containers and ephemeral containers are never
// probed, and calls about them do nothing. A pod without a UID is logged and not probed.
type Prober struct {
	options Options
	// began is when New was called; containers started earlier belong to an earlier agent.
	began time.Time
	// changed are the pods for Take; unused if Options.Sink is set.
	changed *dirty.Set
	// wake has room for one value: a probe is due earlier than armed.
	wake signal.Signal
	// told has room for one value: an update for the sink is queued.
	told signal.Signal
	// overdue has room for one value: attempts are to be judged without their handler.
	overdue signal.Signal
	// pending counts the goroutines of Run.
	pending sync.WaitGroup

	mu struct {
		sync.Mutex
		registry
		life    lifecycle.Stage
		network pool
		exec    pool
		// armed is the time to which the scheduler's timer is set.
		armed time.Time
	}
}

// New returns a Prober that records instances, and probes once Run is called. The error names the
// invalid field of o.
func New(o Options) (*Prober, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Prober{
		options: o, wake: signal.New(), told: signal.New(), overdue: signal.New(),
		began: time.Now(), changed: dirty.New(),
	}
	if o.Sink == nil {
		p.options.Sink = dirtySink{p.changed}
	}
	p.mu.registry = newRegistry()
	p.mu.network = newPool(concurrency)
	p.mu.exec = newPool(execConcurrency)
	return p, nil
}

// Start records that a container instance runs. Call Start as soon as the container runs. The first
// attempt is due exactly InitialDelaySeconds after in.StartedAt. Readiness and liveness also wait
// until the startup probe has succeeded.
//
// A repeated call for the same instance applies a changed PodIP and the probes of pod, and ignores
// the other fields of in. An earlier instance of the container is dropped: its attempts are
// cancelled and its results deleted. A late call about an instance with a successor does nothing.
// The Prober remembers the last sixteen instances of a container.
func (p *Prober) Start(pod *v1.Pod, container string, in Instance) {
	if in.ID == "" || !p.accepts(pod) {
		return
	}
	c := probed(pod, container)
	if c == nil {
		return
	}
	a := p.arrival(pod, c, in)
	p.change(func(r *registry, now time.Time) { r.arrive(r.record(pod), a, sourceStart, now) })
}

// Stop ends the given kinds of probes of one instance. Attempts in progress are cancelled, and
// their results dropped. Established results stay until the instance is gone. An unknown ID is
// ignored, so a late Stop never affects the next instance. A stop is final: a later AddPod does not
// restart the probes.
func (p *Prober) Stop(id string, kinds Type) {
	p.change(func(r *registry, _ time.Time) {
		if in, ok := r.ids[id]; ok {
			r.stop(in, kinds)
		}
	})
}

// AddPod records the running instances of a pod, by container name, at every sync. AddPod corrects
// missed Start and Stop calls. An instance that no longer runs is forgotten with its results, and a
// new instance is added. Probes with a changed spec continue with the new spec and keep their
// result. A nil map means that the running instances are unknown; AddPod then only applies spec
// changes. Running makes the map from a v1.PodStatus. A call that names an instance with a known
// successor is late, and does not change the container. The second of two consecutive such calls
// counts.
//
// For a pod with a deletion timestamp, liveness and startup are not probed, as after
// StopLivenessAndStartup.
//
// The Prober keeps the pod until the next call with a newer pod; the caller must not write to the
// pod. A pod that is unknown and has no running instance is not kept.
func (p *Prober) AddPod(pod *v1.Pod, running map[string]Instance) {
	if !p.accepts(pod) {
		return
	}
	var arrivals []arrival
	for c := range podfacts.Containers(&pod.Spec) {
		if probed(pod, c.Name) == c {
			arrivals = append(arrivals, p.arrival(pod, c, running[c.Name]))
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

// accepts reports whether the pod has a UID. A pod without a UID is logged.
func (p *Prober) accepts(pod *v1.Pod) bool {
	if pod == nil {
		return false
	}
	if pod.UID == "" {
		p.options.Logger.Warn("Pod without a UID is not probed", zap.String("pod", pod.Namespace+"/"+pod.Name))
	}
	return pod.UID != ""
}

// observe applies AddPod to one container.
func (r *registry) observe(rec *podRecord, a arrival, known bool, now time.Time) {
	if a.ID != "" {
		r.arrive(rec, a, sourceSync, now)
		return
	}
	in := rec.find(a.container.Name)
	switch {
	case in == nil:
	case known:
		r.drop(in)
	default:
		r.respec(in, a.configs, now)
	}
}

// arrival calls Tune and Jitter. The lock is not held.
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

// StopLivenessAndStartup is for a terminating pod. It stops liveness and startup probes of all
// containers, including sidecars. Readiness continues, so that the pod can become unready. The stop
// is final.
func (p *Prober) StopLivenessAndStartup(uid types.UID) {
	p.change(func(r *registry, _ time.Time) {
		if rec, ok := r.pods[uid]; ok {
			r.stopPod(rec, Liveness|Startup)
		}
	})
}

// RemovePod stops all probes of a pod and deletes the pod with its results. Call RemovePod when no
// container of the pod runs.
func (p *Prober) RemovePod(uid types.UID) {
	p.change(func(r *registry, _ time.Time) { r.removePod(uid) })
	p.changed.Drop(uid)
}

// CleanupPods removes every pod for which keep returns false. keep is called once per pod, without
// a lock held, and not for pods added during the call.
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
				p.changed.Drop(uid)
			}
		})
	}
}

// Result returns the established result of a probe of an instance. False: the instance is not known
// to run, or has no such probe.
func (p *Prober) Result(id string, kind Type) (Result, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.result(id, kind)
}

// change applies f to the registry, then runs the collected cancels without the lock.
func (p *Prober) change(f func(r *registry, now time.Time)) {
	now := time.Now()
	p.mu.Lock()
	if p.mu.life == lifecycle.Stopped {
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

// rouse wakes the scheduler and the sink goroutine if the registry has new work. The lock is held.
func (p *Prober) rouse() {
	if first := p.mu.agenda.first(); first != nil && first.due.Before(p.mu.armed) {
		p.wake.Notify()
	}
	if !p.mu.news.empty() {
		p.told.Notify()
	}
}

// State describes one probe of one instance, for debugging and tests.
type State struct {
	Pod           types.NamespacedName
	PodUID        types.UID
	Container, ID string
	Type          Type
	Stage         Stage
	Result        Result
	// Run is how many attempts in a row had the same outcome; Errors is the number of consecutive
	// attempts without a verdict, Errored the total.
	Run, Errors, Errored int
	// Due is the due time of the next attempt, or of the attempt in progress; zero without an
	// attempt.
	Due time.Time
}

// Snapshot returns every probe, by pod, container and kind. The slice is the caller's.
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
	sorted.By(all, func(a, b State) int {
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
	switch p.stage {
	case StageWaiting, StageQueued:
		s.Due = p.due
	case StageRunning:
		s.Due = p.flight.due
	}
	return s
}
