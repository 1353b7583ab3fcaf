// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Order implements feature.Gate. Pods that ran before come first, then older pods, then by
// namespace and name.
func (g *Gate) Order(pods []*v1.Pod) []*v1.Pod {
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int {
		if x, y := g.ran(a), g.ran(b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return pods
}

// ran reports whether a pod was admitted before: the runtime had containers of the pod when this
// agent began, or the API server's status has a start time.
func (g *Gate) ran(pod *v1.Pod) bool {
	return g.former.Get(pod.UID) || pod.Status.StartTime != nil && !podfacts.IsTerminal(pod.Status.Phase)
}

// Admit implements feature.Gate. A pod that has ended is admitted without a place.
func (g *Gate) Admit(pod *v1.Pod) feature.AdmitResult {
	own := admission.DemandOf(pod)
	d := g.decide(own)
	for _, victim := range d.victims {
		g.preempt(victim, pod)
	}
	if d.held != "" {
		g.held.Set(pod.UID, g.heldSince(pod.UID))
		if d.askNode {
			g.ask.Notify()
		}
		return d.result()
	}
	g.held.Drop(pod.UID)
	if len(d.failures) == 0 && !podfacts.IsTerminal(pod.Status.Phase) {
		g.reserve(own)
	}
	return d.result()
}

// decision is the gate's decision about a pod, with its consequences for other pods. The zero value
// admits the pod.
type decision struct {
	failures []admission.Failure
	held     string    // the event that the pod waits for; "": it does not wait
	victims  []*v1.Pod // pods to preempt
	askNode  bool      // the Node has to be read first
}

// result returns the decision for the node.
func (d decision) result() feature.AdmitResult {
	if d.held != "" || len(d.failures) == 0 {
		return feature.AdmitResult{Wait: d.held}
	}
	texts := make([]string, 0, len(d.failures))
	for _, f := range d.failures {
		texts = append(texts, f.Message)
	}
	return feature.AdmitResult{Reason: d.failures[0].Reason, Message: strings.Join(texts, "; ")}
}

// decide decides about a pod without changing the gate. A pod that is admitted or ran before this agent
// is never refused because of changes on the node.
func (g *Gate) decide(own *admission.Demand) decision {
	if podfacts.IsTerminal(own.Pod.Status.Phase) || g.places.Get(own.Pod.UID) != nil || g.ran(own.Pod) {
		return decision{}
	}
	stale := g.opts.Node != nil && g.asOf.Before(g.heldSince(own.Pod.UID))
	wait, failures := g.opts.Admit(own.Pod)
	failures = slices.Concat(failures, g.check(own))
	switch {
	case !g.known && (len(failures) > 0 || own.Asks()): // the resources may belong to a pod that ran before
		return decision{held: "the pods of an earlier agent are not known yet"}
	case stale && admission.DependsOnNode(&g.node, own, failures):
		return decision{held: "the node may have changed", askNode: true}
	case len(failures) == 0:
		return decision{held: wait}
	}
	victims, refused := admission.MakeRoom(&g.node, own, failures, g.staying(own))
	if len(refused) > 0 {
		return decision{failures: refused}
	}
	return decision{held: "pods end to make room", victims: victims}
}

// check returns the failures of a pod that has no place. The places of namesakes are free for the
// pod.
func (g *Gate) check(own *admission.Demand) []admission.Failure {
	failures := admission.Check(&g.node, g.used, own)
	if len(failures) == 0 || !own.IsStatic() {
		return failures
	}
	for _, p := range g.places.All() {
		if own.IsNamesake(p.demand) {
			g.used.Remove(p.demand)
			defer g.used.Add(p.demand)
		}
	}
	return admission.Check(&g.node, g.used, own)
}

// staying returns the demands of the admitted pods that do not end, or start again after their end, to
// make room for own.
func (g *Gate) staying(own *admission.Demand) iter.Seq[*admission.Demand] {
	return func(yield func(*admission.Demand) bool) {
		for uid, p := range g.places.All() {
			ends := g.host.Workers.IsPodTerminationRequested(uid) && !g.restarts(uid)
			if !ends && !own.IsNamesake(p.demand) && !yield(p.demand) {
				return
			}
		}
	}
}

// heldSince returns the time at which the pod was first held, or the present.
func (g *Gate) heldSince(uid types.UID) time.Time {
	if since := g.held.Get(uid); !since.IsZero() {
		return since
	}
	return time.Now()
}

// restarts reports whether a pod starts again in its place after the end of its containers.
func (g *Gate) restarts(uid types.UID) bool {
	info, _ := g.host.Workers.Info(uid)
	return info.RestartRequested
}

// preempt ends a pod to make room for a critical pod. The exit codes of the containers decide
// between Succeeded and Failed, as in the kubelet (1.36). A static pod is always Failed. A pod that
// is about to start again is preempted after that, because a kill affects only the version before.
func (g *Gate) preempt(victim, critical *v1.Pod) {
	if g.restarts(victim.UID) {
		return
	}
	g.host.Log.Warn("pod is preempted", feature.PodField(victim), zap.String("for", critical.Namespace+"/"+critical.Name))
	g.host.Event(victim, v1.EventTypeWarning, admission.ReasonPreempted, admission.MessagePreempted)
	g.host.Fail(victim, feature.Failure{Reason: admission.ReasonPreempted, Message: admission.MessagePreempted, Evict: true, ByExit: !podfacts.IsStatic(victim), Condition: &v1.PodCondition{
		Type:    v1.DisruptionTarget,
		Status:  v1.ConditionTrue,
		Reason:  v1.PodReasonTerminationByKubelet,
		Message: "Pod was preempted by Kubelet to accommodate a critical pod.",
	}})
}

// reserve reserves a pod's resources. For a pod from before the start of the agent, the allocated
// resources are reserved first, and a different spec is then a resize.
func (g *Gate) reserve(own *admission.Demand) {
	p := g.places.Get(own.Pod.UID)
	if p == nil {
		p = &place{}
		g.occupy(p, own)
		if !g.ran(own.Pod) {
			return
		}
		g.occupy(p, admission.Allocated(own))
	}
	g.resize(p, own)
}

// resize decides about the new spec of an admitted pod, and reports whether the pod is given the
// new resources. Otherwise the pod runs with its current resources while the resize waits.
func (g *Gate) resize(p *place, wanted *admission.Demand) (granted bool) {
	pod := wanted.Pod
	before, r := g.pending.Get(pod.UID), admission.Resize(&g.node, g.used, p.demand, wanted)
	g.occupy(p, r.Run)
	if r.Pending == nil {
		g.pending.Drop(pod.UID)
		if r.Granted {
			g.opts.Resized(pod, nil)
			g.wanted.Notify() // a smaller pod may make room for another resize
		}
		return true
	}
	g.pending.Set(pod.UID, r.Pending)
	if before == nil {
		p.since = time.Now()
	}
	if before == nil || *before != *r.Pending {
		g.opts.Resized(pod, r.Pending)
	}
	return false
}

// Resized implements feature.Gate. The pods are asked by priority, then by waiting time.
func (g *Gate) Resized() (granted []*v1.Pod) {
	var waiting []*v1.Pod
	for uid := range g.pending.All() {
		if pod, ok := g.host.Desired(uid); ok {
			waiting = append(waiting, pod)
		}
	}
	slices.SortFunc(waiting, func(a, b *v1.Pod) int {
		return cmp.Or(
			cmp.Compare(podfacts.Priority(b), podfacts.Priority(a)),
			g.places.Get(a.UID).since.Compare(g.places.Get(b.UID).since),
			cmp.Compare(a.UID, b.UID))
	})
	return slices.DeleteFunc(waiting, func(pod *v1.Pod) bool {
		return !g.resize(g.places.Get(pod.UID), admission.DemandOf(pod))
	})
}

// Allocated implements feature.Gate.
func (g *Gate) Allocated(pod *v1.Pod) *v1.Pod {
	if p := g.places.Get(pod.UID); p != nil && g.pending.Get(pod.UID) != nil {
		return admission.WithResources(pod, p.demand.Pod) // p.demand may have an older status
	}
	return pod
}

// Release implements feature.Gate.
func (g *Gate) Release(uid types.UID) {
	g.held.Drop(uid)
	g.vacate(uid)
	g.wanted.Notify()
}

// occupy sets the place of an admitted pod: the version that runs has the demand run.
func (g *Gate) occupy(p *place, run *admission.Demand) {
	if p.demand != nil {
		g.used.Remove(p.demand)
	}
	p.demand = run
	g.used.Add(run)
	g.places.Set(run.Pod.UID, p)
}

// vacate frees the place of a pod.
func (g *Gate) vacate(uid types.UID) {
	if p := g.places.Drop(uid); p != nil {
		g.used.Remove(p.demand)
	}
	g.former.Drop(uid)
	g.pending.Drop(uid)
}
