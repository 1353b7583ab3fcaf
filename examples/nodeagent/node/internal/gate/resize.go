// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/internal/resize"
)

// eventResize is the prefix of the event reason of a waiting resize. The suffix is the Pending's
// reason.
const eventResize = "Resize"

// resize decides about the new spec of an admitted pod, and reports whether the pod is given the
// new resources. Otherwise the pod runs with its current resources while the resize waits.
func (g *Gate) resize(pod *v1.Pod) (granted bool) {
	p := g.places.Get(pod.UID)
	if p == nil {
		return true
	}
	before, now := g.pending.Get(pod.UID), (*admission.Pending)(nil)
	other := !admission.SameResources(pod, p.run)
	if other {
		now = admission.Resize(&g.node, g.used, p.demand, admission.DemandOf(pod))
	}
	if now == nil {
		g.occupy(p, pod)
		g.pending.Drop(pod.UID)
		g.wanted.Notify() // a smaller pod may make room for another resize
		if other && g.opts.Granted != nil {
			g.opts.Granted(pod)
		}
		return true
	}
	g.occupy(p, admission.WithResources(pod, p.run))
	g.pending.Set(pod.UID, now)
	if before == nil {
		p.since = time.Now()
	}
	if before == nil || *before != *now {
		g.host.Event(pod, v1.EventTypeWarning, eventResize+now.Reason, resize.Text("Pod resize "+now.Reason, pod, now.Message))
	}
	return false
}

// waiting returns the pods with a waiting resize, by priority and then by waiting time.
func (g *Gate) waiting() (pods []*v1.Pod) {
	for uid := range g.pending.All() {
		if pod, ok := g.host.Desired(uid); ok {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(
			cmp.Compare(importance(b), importance(a)),
			g.places.Get(a.UID).since.Compare(g.places.Get(b.UID).since),
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

// Resized implements feature.Gate.
func (g *Gate) Resized() (granted []*v1.Pod) {
	for _, pod := range g.waiting() {
		if g.resize(pod) {
			granted = append(granted, pod)
		}
	}
	return granted
}

// Allocated implements feature.Gate.
func (g *Gate) Allocated(pod *v1.Pod) *v1.Pod {
	if p := g.places.Get(pod.UID); p != nil && g.pending.Get(pod.UID) != nil {
		return p.run
	}
	return pod
}
