// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/runtime"
)

// Stops and probes on a peaceful node.

const (
	startupProbe   = prober.Startup
	livenessProbe  = prober.Liveness
	readinessProbe = prober.Readiness
)

// attempts returns the answered attempts of a kind of probe of an instance, in order.
func (p *peace) attempts(id string, kind prober.Type) (all []Probed) {
	for _, a := range p.h.Probes {
		if a.ID == id && a.Type == kind {
			all = append(all, a)
		}
	}
	return all
}

// failedAt returns the time at which a probe has reached its failure threshold, or forever.
func (p *peace) failedAt(id string, kind prober.Type, probe *v1.Probe) time.Duration {
	if probe == nil {
		return forever
	}
	inRow, last := int32(0), time.Duration(0)
	for _, a := range p.attempts(id, kind) {
		from := last
		if i := p.byID[id]; i != nil && i.began() == last {
			from++ // the agent that made this attempt at its start has started the instance
		}
		if inRow++; a.Well || p.agentBetween(from, a.At) {
			inRow = 0
			if !a.Well {
				inRow = 1
			}
		}
		if last = a.At; inRow >= failuresOf(probe) {
			return a.At
		}
	}
	return forever
}

// ends judges that all containers are stopped at the end of a life: regular containers at once,
// sidecars after them.
func (p *peace) ends(uid types.UID, life int) {
	pod := p.lastManifest(uid, life)
	at := min(p.wanted[uid][life].to, p.deadlineOf(uid, life))
	if over := p.over(uid, life, 0); over < at {
		at = over
	}
	if at == forever || p.completedByProbe(uid) {
		return
	}
	late := time.Duration(0)
	if p.goesOn[tenant{uid, life + 1}] && slices.ContainsFunc(p.runs, func(r *run) bool {
		return r.uid == uid && r.life == life && r.cannotStart && r.exited == at
	}) {
		late = retried // the next call after a failed start restarts all containers
	}
	if p.unmounted(pod, at) {
		late = retried // a wait for the volumes ends before
	}
	last := at
	for _, r := range p.runs {
		ref, ok := runtime.Find(pod, r.name)
		switch {
		case !ok || r.uid != uid || r.life > life || isSidecar(pod, ref):
		case r.life < life:
			if r.exited > at && r.started <= at {
				last = max(last, r.exited) // the next agent has taken it over into this life
			}
		default:
			hook := hookTime(ref.Container(pod))
			if p.ephemeral(r) {
				hook += hooksTime(pod) // the postStart hook of a container that has ended may be in progress
			}
			p.stoppedAt(r, at, late+hook)
			if r.started < forever {
				last = max(last, r.exited)
			}
			if r.started <= at && r.exited > at && last < forever {
				last = max(last, at+hookTime(ref.Container(pod)))
			}
		}
	}
	if last == forever {
		return
	}
	for _, r := range p.runs {
		if ref, ok := runtime.Find(pod, r.name); ok && r.uid == uid && r.life == life && isSidecar(pod, ref) && len(pod.Spec.InitContainers) == 1 {
			p.stoppedAt(r, last, late+hooksTime(pod))
		}
	}
}

// hookTime returns the duration of a container's preStop hook.
func hookTime(c *v1.Container) time.Duration {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil {
		return 0
	}
	return time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
}

// stoppedAt judges that an instance is stopped at some time, if it still runs then.
func (p *peace) stoppedAt(r *run, at, hook time.Duration) {
	if at == forever || r.started > at || r.exited <= at+hook+soon || at+hook+soon > p.h.Taken {
		return
	}
	for _, s := range r.stops {
		if s.at <= at+hook+soon {
			return
		}
	}
	p.violate(at, "%s (%s/%s) is to be stopped, and is not", r.id, r.uid, r.name)
}

// stopped judges each stop of an instance: it has a cause and the right grace period.
func (p *peace) stopped(r *run) {
	if r.life < 0 || p.takenOver(r.uid, r.life) {
		return
	}
	s := p.wanted[r.uid][r.life]
	if p.goesOn[tenant{r.uid, r.life + 1}] {
		s.to-- // a life may end 1 ns after a start that failed at this instant
	}
	pod := p.lastManifest(r.uid, r.life)
	ref, ok := runtime.Find(pod, r.name)
	if !ok {
		return
	}
	c := ref.Container(pod)
	unwell := p.unwellAt(c, r)
	if unwell < forever && !p.sidecarFell(r.uid, r.life, pod, unwell+soon) && !p.unmounted(pod, unwell) { // what waits for a sidecar is kept meanwhile
		p.stoppedAt(r, max(unwell, r.started+afterStart(c)), hookTime(c))
	}
	over, failed := p.over(r.uid, r.life, 0), hookFailed(c)
	if failed {
		p.stoppedAt(r, r.started, hookTime(c))
	}
	for _, stop := range r.stops {
		editedAt := func(at time.Duration) bool {
			return p.imageAt(r.uid, r.name, max(s.from, min(at, s.to-1))) != r.image || len(c.ResizePolicy) > 0 && p.resizedSince(r, at, c.ResizePolicy[0].ResourceName)
		}
		edited := editedAt(stop.at)
		if stop.at < s.to && stop.at < over && stop.at < unwell && !failed && !edited {
			p.violate(stop.at, "%s (%s/%s) is stopped without a cause", r.id, r.uid, r.name)
			continue
		}
		if p.agentBetween(s.to, stop.at) {
			continue // the next agent knows another manifest
		}
		want := max(p.grace(r, pod, stop.at), time.Second)
		if p.manifest(r.uid, stop.at-1) != nil && stop.grace > want {
			want = max(p.grace(r, pod, stop.at-1), time.Second) // a source may tell of a shorter period at this instant
		}
		if p.goesOn[tenant{r.uid, r.life + 1}] && stop.at >= s.to && stop.grace == time.Second {
			continue // a restart of all containers does not wait
		}
		adopted := failed && p.agentBetween(r.started, stop.at) // the next agent does not know that the hook has failed
		if unwell <= stop.at && s.to >= stop.at && over >= stop.at && !editedAt(stop.at-hookTime(c)) && (!failed || adopted) {
			if own := p.probeGrace(c, r); own != nil {
				wanted := max(time.Duration(*own)*time.Second, time.Second)
				if (min(s.to, over) == stop.at || adopted && !p.agentBetween(r.started+1, stop.at)) && stop.grace == want {
					continue // the pod ends, or the agent began, at that moment: both causes are possible
				}
				if edited { // during the preStop hook
					wanted = max(wanted, want)
				}
				want = wanted
			}
		}
		if !isSidecar(pod, ref) && hookTime(c) == 0 && stop.grace != want || stop.grace > want {
			p.violate(stop.at, "%s (%s/%s) is stopped with a grace period of %v, not %v", r.id, r.uid, r.name, stop.grace, want)
		}
	}
}

// probeGrace returns the grace period of the failed probe of an instance; nil: the pod's.
func (p *peace) probeGrace(c *v1.Container, r *run) *int64 {
	if p.failedAt(r.id, livenessProbe, c.LivenessProbe) < forever {
		return c.LivenessProbe.TerminationGracePeriodSeconds
	}
	return c.StartupProbe.TerminationGracePeriodSeconds
}

// grace returns the grace period of an instance according to its pod.
func (p *peace) grace(r *run, pod *v1.Pod, at time.Duration) time.Duration {
	if now := p.manifest(r.uid, at); now.DeletionGracePeriodSeconds != nil {
		return time.Duration(*now.DeletionGracePeriodSeconds) * time.Second
	}
	return time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
}

// probes judges the times of an instance's probes: from its start, or from the success of its
// startup probe, once per period until the instance is stopped or has ended. An instance taken over
// by another agent has other times.
func (p *peace) probes(r *run) {
	if r.started == forever || r.life < 0 || p.agentBetween(r.started, min(r.exited, p.h.Taken)) {
		return
	}
	ref, ok := runtime.Find(p.lastManifest(r.uid, r.life), r.name)
	if !ok {
		return
	}
	c := ref.Container(p.lastManifest(r.uid, r.life))
	if afterStart(c) > 0 || hookFailed(c) {
		return // the probes begin during the hook or after it, or not at all
	}
	until := min(r.exited, p.h.Taken)
	if len(r.stops) > 0 {
		until = min(until, r.stops[0].at-hookTime(c))
	}
	until = min(until, p.wanted[r.uid][r.life].to, p.over(r.uid, r.life, 0))
	opens := r.started
	if c.StartupProbe != nil {
		opens = forever
		for _, a := range p.attempts(r.id, startupProbe) {
			if a.Well {
				opens = a.At
				break
			}
		}
		p.regular(r, startupProbe, c.StartupProbe, delayed(c.StartupProbe, r.started, 0), min(until, opens, p.failedAt(r.id, startupProbe, c.StartupProbe)))
	}
	if c.LivenessProbe != nil {
		p.regular(r, livenessProbe, c.LivenessProbe, delayed(c.LivenessProbe, r.started, opens), min(until, p.failedAt(r.id, livenessProbe, c.LivenessProbe)))
	}
	if c.ReadinessProbe != nil {
		p.regular(r, readinessProbe, c.ReadinessProbe, delayed(c.ReadinessProbe, r.started, opens), until)
	}
}

// delayed returns the time of the first attempt of a probe: after its initial delay, and after the
// startup probe.
func delayed(probe *v1.Probe, started, opens time.Duration) time.Duration {
	return max(opens, started+time.Duration(probe.InitialDelaySeconds)*time.Second)
}

// regular judges that attempts occur in each period of a time.
func (p *peace) regular(r *run, kind prober.Type, probe *v1.Probe, from, until time.Duration) {
	due := from
	for _, a := range p.attempts(r.id, kind) {
		if a.At > until {
			break
		}
		if off := a.At - due; off < -probeSlack || off > probeSlack {
			p.violate(a.At, "probe %v of %s (%s/%s) runs, and was due at %.3fs", kind, r.id, r.uid, r.name, due.Seconds())
			return
		}
		due = a.At + periodOf(probe)
	}
	if due < until && due+probeSlack < until {
		p.violate(due, "probe %v of %s (%s/%s) is due, and does not run", kind, r.id, r.uid, r.name)
	}
}

// probeSlack is the tolerated deviation of a probe: an agent interrupts its work for a pod to
// handle the other containers.
const probeSlack = 100 * time.Millisecond
