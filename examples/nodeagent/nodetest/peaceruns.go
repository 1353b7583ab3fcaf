// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// run is a container instance on a peaceful node.
type run struct {
	uid                      types.UID
	pod, name, id, image     string
	count, code              int
	created, started, exited time.Duration // forever: not happened
	removed                  time.Duration
	stops                    []stop // during its run
	oom, cannotStart         bool
	life                     int // of the pod, at the creation
}

// stop is a call to stop a running instance.
type stop struct{ at, grace time.Duration }

// ended returns the time from which the instance cannot run any more. An instance whose start
// failed has ended at its creation.
func (r *run) ended() time.Duration {
	switch {
	case r.started == forever:
		return r.created
	case r.cannotStart:
		return r.started
	}
	return r.exited
}

// codeFor returns the deciding exit code of an instance: a container that runs to completion and
// was hit by the OOM killer has failed.
func (r *run) codeFor(pod *v1.Pod) int32 {
	if ref, ok := runtime.Find(pod, r.name); ok && ref.Group == runtime.GroupInit && r.code == 0 && r.oom {
		return 137
	}
	return int32(r.code)
}

type chainKey struct {
	uid  types.UID
	life int
	name string
}

func newPeace(h History, l limits) *peace {
	p := &peace{checker: newChecker(h), limits: l, away: make(map[tenant]verdict), places: make(map[tenant]time.Duration), told: make(map[types.UID][]Told), goesOn: make(map[tenant]bool)}
	for _, t := range h.Told {
		for _, pod := range t.Pods {
			p.told[pod.UID] = append(p.told[pod.UID], Told{t.At, t.Source, []*v1.Pod{pod}})
		}
	}
	p.readRuns()
	for p.number(); p.splitLife(); p.number() {
	}
	return p
}

// number assigns each instance the life in which it was created.
func (p *peace) number() {
	p.chains = make(map[chainKey][]*run)
	for _, r := range p.runs {
		var s span
		s, r.life = p.spanAt(r.uid, r.created)
		atOnce := r.created == s.from && s.to > r.created+1 // a life that ends at once ends it, too
		stopped := len(r.stops) > 0 && r.stops[0].at == r.created && !p.isUnwell(r)
		if p.goesOn[tenant{r.uid, r.life}] && (atOnce && (r.removed == s.from || stopped) || p.inTheWay(r, s)) {
			r.life-- // created a moment before the exit that restarted all containers, or by a call that the exit did not interrupt
		}
		for r.life >= 0 && p.goesOn[tenant{r.uid, r.life + 1}] && p.ephemeral(r) && r.exited > p.wanted[r.uid][r.life].to {
			r.life++ // no rule restarts an ephemeral container
		}
		key := chainKey{r.uid, r.life, r.name}
		p.chains[key] = append(p.chains[key], r)
	}
}

// isUnwell reports whether r was stopped because of its liveness or startup probe.
func (p *peace) isUnwell(r *run) bool {
	pod := p.manifest(r.uid, r.created)
	if pod == nil {
		return false
	}
	ref, ok := runtime.Find(pod, r.name)
	return ok && p.killedByProbe(ref.Container(pod), r)
}

// ephemeral reports whether r is an instance of an ephemeral container.
func (p *peace) ephemeral(r *run) bool {
	pod := p.manifest(r.uid, r.created)
	if pod == nil {
		return false
	}
	ref, ok := runtime.Find(pod, r.name)
	return ok && ref.Group == runtime.GroupEphemeral
}

// inTheWay reports whether r was created before all instances of the earlier life were removed: r cannot start
// and was created at the begin of the life, or r replaced an instance whose stop was in progress then.
func (p *peace) inTheWay(r *run, s span) bool {
	fails := (r.started == forever || r.cannotStart) && r.created == s.from
	return slices.ContainsFunc(p.runs, func(o *run) bool {
		replaced := o.name == r.name && o.exited == r.created && len(o.stops) > 0 && o.stops[0].at <= s.from && o.removed > r.created
		return o.uid == r.uid && o.created < s.from && (fails && o.removed > s.from && o.removed < forever || replaced)
	})
}

// readRuns derives instances from the journal.
func (p *peace) readRuns() {
	byID := make(map[string]*run)
	type instant struct{ at, now time.Duration }
	again := make(map[types.UID]instant) // in which all containers restart after a failed start; now is 1 ns later for each restart
	for _, e := range p.h.Calls {
		r := byID[e.ID]
		at := e.At
		if a := again[e.UID]; at == a.at {
			e.At = a.now
		}
		switch {
		case e.Op == fake.OpCreateContainer && e.Done:
			r = &run{uid: e.UID, pod: e.Pod, name: e.Container, id: e.ID, image: e.Image, created: e.At, started: forever, exited: forever, removed: forever}
			_, _ = fmt.Sscanf(e.Detail, "restart %d", &r.count)
			byID[e.ID] = r
			p.runs = append(p.runs, r)
		case r == nil:
		case e.Op == fake.OpStartContainer && e.Done:
			r.started = max(e.At, e.DoneAt)
		case e.Op == fake.OpStopContainer && r.started <= e.At && r.exited == forever:
			grace, _ := time.ParseDuration(e.Detail[min(len(e.Detail), len("grace ")):])
			r.stops = append(r.stops, stop{e.At, grace})
		case e.Op == fake.OpRemoveContainer && e.Done:
			if r.removed = e.At; r.cannotStart && r.exited == e.At+1 {
				again[r.uid] = instant{at, r.exited}
			}
		case e.Op == fake.OpExited && strings.Contains(e.Detail, runtime.ReasonStartError):
			// A failed start is the shortest run. If all containers restart, the next life begins after it.
			r.started, r.exited, r.code, r.cannotStart = e.At, e.At+1, runtime.ExitCodeStartError, true
		case e.Op == fake.OpExited && r.started < forever:
			r.exited = e.At
			_, _ = fmt.Sscanf(e.Detail, "code %d", &r.code)
			r.oom = strings.Contains(e.Detail, runtime.ReasonOOMKilled)
		}
	}
}

// splitLife ends a life and begins another at an exit with a rule that restarts all containers of
// the pod. It reports whether there was a further such exit. An instance of an earlier manifest counts if
// another agent has adopted the instance before its exit, see takenOver.
func (p *peace) splitLife() bool {
	for _, r := range p.runs {
		s, life := p.spanAt(r.uid, r.exited)
		adopted := !p.goesOn[tenant{r.uid, life}] && p.agentBetween(s.from, r.exited)
		if r.exited == forever || life < 0 || r.exited == s.from || r.exited >= s.to || r.created < s.from && !adopted || !restartsAll(p.manifest(r.uid, r.exited), r) ||
			r.exited >= p.deadlineOf(r.uid, life) {
			continue
		}
		before, after := s, s
		before.to, after.from = r.exited, r.exited
		p.wanted[r.uid] = slices.Concat(p.wanted[r.uid][:life], []span{before, after}, p.wanted[r.uid][life+1:])
		for n := len(p.wanted[r.uid]) - 1; n > life; n-- { // the numbers of later lives grow by one
			p.goesOn[tenant{r.uid, n}] = n == life+1 || p.goesOn[tenant{r.uid, n - 1}]
		}
		return true
	}
	return false
}

// restartsAll reports whether a rule restarts all containers after the end of an instance.
func restartsAll(pod *v1.Pod, r *run) bool {
	ref, ok := runtime.Find(pod, r.name)
	if !ok {
		return false
	}
	rule := ruleFor(ref.Container(pod), r.codeFor(pod))
	return rule != nil && rule.Action == v1.ContainerRestartRuleActionRestartAllContainers
}

// exceeded reports whether the pod had failed at its deadline under an earlier agent. The pod never had
// a sandbox, so that the next agent begins anew.
func (p *peace) exceeded(uid types.UID, life int, created time.Duration) bool {
	return slices.ContainsFunc(p.h.Statuses, func(s Published) bool {
		return s.Pod.UID == uid && s.At >= p.wanted[uid][life].from && s.At < created && s.Status.Reason == reasonDeadline && p.agentBetween(s.At, created)
	})
}

// resizeWaits reports whether a resize of the pod waits for room after the creation of an instance. The
// container may have other resources then at any time.
func (p *peace) resizeWaits(r *run) bool {
	return slices.ContainsFunc(p.h.Statuses, func(s Published) bool {
		return s.Pod.UID == r.uid && s.At >= r.created && conditionsOf(&s.Status)[v1.PodResizePending].Status == v1.ConditionTrue
	})
}

// toldOver reports whether an end of a life, other than the end by its deadline, was published before some
// time, while sidecars ran. The end of an earlier life may be published when this life is wanted, and has
// not begun.
func (p *peace) toldOver(uid types.UID, life int, until time.Duration) bool {
	return slices.ContainsFunc(p.h.Statuses, func(s Published) bool {
		return s.Pod.UID == uid && s.At >= p.wanted[uid][life].from && s.At < until && over(s.Status.Phase) && s.Status.Reason != reasonDeadline && p.hadBegun(uid, s.At)
	})
}
