// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// decision is the gate's decision about a pod, with its consequences for other pods. The zero value admits the pod.
type decision struct {
	failures []admission.Failure
	held     string    // the event that the pod waits for; "": it does not wait
	victims  []*v1.Pod // pods to preempt
	askNode  bool      // the Node has to be read first
}

// decide decides about a pod without changing the gate. A pod that is admitted or ran before this
// agent is never refused because of changes on the node.
func (g *Gate) decide(pod *v1.Pod) decision {
	if g.places.Get(pod.UID) != nil || g.ran(pod) {
		return decision{}
	}
	own := admission.DemandOf(pod)
	wait, failures := g.opts.Admit(pod)
	failures = slices.Concat(failures, admission.CheckSystem(&g.node, pod), g.check(own))
	switch {
	case !g.known && (len(failures) > 0 || own.Asks()): // the resources may belong to a pod that ran before
		return decision{held: "what ran before is not known yet"}
	case g.opts.Node != nil && g.asOf.Before(g.heldSince(pod)) && g.dependsOnNode(own, failures):
		return decision{held: "the node may have changed", askNode: true}
	case len(failures) == 0:
		return decision{held: wait}
	}
	if _, only := admission.Shortages(failures); !only || !admission.Critical(pod) {
		return decision{failures: failures}
	}
	return g.makeRoom(own, failures)
}

// dependsOnNode reports whether the decision about a pod depends on the present Node: on its labels
// and taints if they are against the pod, and on its amounts of extended resources, which an
// administrator may have changed.
func (g *Gate) dependsOnNode(own *admission.Demand, failures []admission.Failure) bool {
	return admission.Has(failures, admission.ReasonNodeAffinity) || admission.Has(failures, admission.ReasonTaint) ||
		slices.ContainsFunc(own.Extended(), func(name v1.ResourceName) bool { return !g.opts.Assigned(name) })
}

// makeRoom chooses the pods to preempt for a critical pod. The critical pod is held until they have
// ended.
func (g *Gate) makeRoom(own *admission.Demand, failures []admission.Failure) decision {
	const waiting = "pods end to make room"
	staying := slices.DeleteFunc(g.staying(), func(d *admission.Demand) bool { return isNamesake(own.Pod, d.Pod) })
	short, _ := admission.Shortages(admission.Check(&g.node, admission.UsageOf(staying...), own))
	if len(short) == 0 {
		return decision{held: waiting}
	}
	victims, err := admission.Preempt(own, staying, short)
	if err != nil {
		failures[0].Message += "; preemption: " + err.Error()
		return decision{failures: failures}
	}
	return decision{held: waiting, victims: victims}
}

// heldSince returns the time at which the pod was first held, or the present.
func (g *Gate) heldSince(pod *v1.Pod) time.Time {
	if since := g.held.Get(pod.UID); !since.IsZero() {
		return since
	}
	return time.Now()
}

// Admit implements feature.Gate. A pod that is over is admitted without a reservation.
func (g *Gate) Admit(pod *v1.Pod) feature.AdmitResult {
	if podfacts.IsTerminal(pod.Status.Phase) {
		g.held.Drop(pod.UID)
		return feature.AdmitResult{}
	}
	r := g.decide(pod)
	for _, victim := range r.victims {
		g.preempt(victim, pod)
	}
	switch {
	case r.held != "":
		g.held.Set(pod.UID, g.heldSince(pod))
		if r.askNode {
			g.ask.Notify()
		}
		return feature.AdmitResult{Wait: r.held}
	case len(r.failures) > 0:
		return feature.AdmitResult{Reason: r.failures[0].Reason, Message: describe(r.failures)}
	}
	g.reserve(pod)
	return feature.AdmitResult{}
}

// preempt fails a pod to make room for a critical pod.
func (g *Gate) preempt(victim, critical *v1.Pod) {
	g.host.Log.Warn("pod is preempted", feature.PodField(victim), zap.String("for", critical.Namespace+"/"+critical.Name))
	g.host.Event(victim, v1.EventTypeWarning, admission.ReasonPreempted, admission.MessagePreempted)
	g.host.Fail(victim, feature.Failure{Reason: admission.ReasonPreempted, Message: admission.MessagePreempted, Evict: true, Condition: &v1.PodCondition{
		Type:    v1.DisruptionTarget,
		Status:  v1.ConditionTrue,
		Reason:  v1.PodReasonTerminationByKubelet,
		Message: "Pod was preempted by Kubelet to accommodate a critical pod.",
	}})
	if g.host.Workers.IsPodKnownTerminated(victim.UID) { // the victim had not started
		g.tell(func(n *news) { n.ended = append(n.ended, victim.UID) })
	}
}

// describe joins the messages of all failures.
func describe(failures []admission.Failure) string {
	texts := make([]string, 0, len(failures))
	for _, f := range failures {
		texts = append(texts, f.Message)
	}
	return strings.Join(texts, "; ")
}
