// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent/admission"
)

// resize decides about an admitted pod's new spec, and reports whether it is given
// the resources it asks for. Until it is it runs with those it has.
func (g *gate) resize(pod *v1.Pod) (granted bool) {
	p := g.places[pod.UID]
	if p == nil {
		return true
	}
	before := p.pending
	p.pending = nil
	other := !admission.SameResources(pod, p.run)
	if other {
		p.pending = admission.Resize(&g.node, g.active(), p.demand, admission.DemandOf(pod))
	}
	if p.pending == nil {
		p.run, p.demand = pod, admission.DemandOf(pod)
		g.setPending(pod.UID, nil)
		g.poke() // it may have become smaller
		if other {
			g.agent.syncer.resizeStarted(pod)
		}
		return true
	}
	p.run = admission.WithResources(pod, p.run)
	p.demand = admission.DemandOf(p.run)
	g.setPending(pod.UID, p.pending)
	if before == nil {
		p.since = time.Now()
	}
	if before == nil || *before != *p.pending {
		g.agent.opts.Events.Event(reference(pod), v1.EventTypeWarning, eventResize+p.pending.Reason,
			resizeText("Pod resize "+p.pending.Reason, pod, p.pending.Message))
	}
	return false
}

// waiting are the pods whose resize waits, in the order in which they are given
// room: the more important first, and then those that have waited longer.
func (g *gate) waiting() (pods []*v1.Pod) {
	for uid, p := range g.places {
		if p.pending == nil {
			continue
		}
		if pod, ok := g.agent.pods.get(uid); ok {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(
			cmp.Compare(importance(b), importance(a)),
			g.places[a.UID].since.Compare(g.places[b.UID].since),
			cmp.Compare(a.UID, b.UID))
	})
	return pods
}

func importance(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// asRun is a pod with the resources that it is given.
func (g *gate) asRun(pod *v1.Pod) *v1.Pod {
	if p := g.places[pod.UID]; p != nil && p.pending != nil {
		return p.run
	}
	return pod
}
