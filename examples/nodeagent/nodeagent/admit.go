// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent/admission"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
)

// ruling is what becomes of a pod that asks to come in: it is admitted, unless it
// is held or something is in its way.
type ruling struct {
	failures []admission.Failure
	held     string    // what it waits for; "": it does not
	victims  []*v1.Pod // that are to end for it
	askNode  bool      // the Node is to be read first
}

// rule decides about a pod. What this node cannot do is refused whoever asks. The
// rest counts for those that come: a pod that ran already is not refused for what
// has changed around it, least of all for pods that are new.
func (g *gate) rule(pod *v1.Pod) ruling {
	if isOver(pod.Status.Phase) {
		return ruling{}
	}
	if err := g.agent.check(pod); err != nil {
		return ruling{failures: []admission.Failure{{Reason: ReasonUnsupported, Message: err.Error()}}}
	}
	if g.places[pod.UID] != nil || g.ran(pod) {
		return ruling{}
	}
	own := admission.DemandOf(pod)
	failures := slices.Concat(admission.CheckSystem(&g.node, pod), admission.Check(&g.node, g.beside(pod, g.active()), own))
	if g.agent.opts.Admit != nil {
		failures = append(failures, g.agent.opts.Admit(pod)...)
	}
	switch {
	case !g.known && (len(failures) > 0 || own.Asks()): // it may be what another has
		return ruling{held: "what ran before is not known yet"}
	case len(failures) == 0:
		return ruling{}
	case g.follows() && g.asOf.Before(g.heldSince(pod)) && (admission.Has(failures, admission.ReasonNodeAffinity) || admission.Has(failures, admission.ReasonTaint)):
		return ruling{held: "the node may have changed", askNode: true}
	}
	if _, only := admission.Shortages(failures); !only || !admission.Critical(pod) {
		return ruling{failures: failures}
	}
	return g.makeRoom(own, failures)
}

// makeRoom finds who is to end for a critical pod. While they end it is held.
func (g *gate) makeRoom(own *admission.Demand, failures []admission.Failure) ruling {
	const waiting = "pods end to make room"
	staying := g.beside(own.Pod, g.staying())
	short, _ := admission.Shortages(admission.Check(&g.node, staying, own))
	if len(short) == 0 {
		return ruling{held: waiting}
	}
	victims, err := admission.Preempt(own, staying, short)
	if err != nil {
		failures[0].Message += "; preemption: " + err.Error()
		return ruling{failures: failures}
	}
	return ruling{held: waiting, victims: victims}
}

// heldSince is when a pod first asked to come in.
func (g *gate) heldSince(pod *v1.Pod) time.Time {
	if h, ok := g.held[pod.UID]; ok {
		return h.since
	}
	return time.Now()
}

// admits reports whether the pod may run.
func (r *ruling) admits() bool { return r.held == "" && len(r.failures) == 0 }

// settle carries out a ruling, and reports whether the pod may run.
func (a *Agent) settle(pod *v1.Pod, r ruling) bool {
	for _, victim := range r.victims {
		a.preempt(victim, pod)
	}
	switch {
	case r.held != "":
		if _, again := a.gate.held[pod.UID]; !again {
			a.log.Info("pod waits for its admission", podField(pod), zap.String("for", r.held))
		}
		a.gate.held[pod.UID] = heldPod{since: a.gate.heldSince(pod)}
		delete(a.gate.places, pod.UID)
		a.pods.reject(pod.UID) // until it is asked again
		a.statuses.add(pod)
		if r.askNode {
			a.gate.readNode()
		}
		return false
	case len(r.failures) > 0:
		a.gate.leave(pod.UID)
		a.reject(pod, r.failures)
		return false
	}
	if isOver(pod.Status.Phase) {
		delete(a.gate.held, pod.UID)
	} else {
		a.gate.take(pod)
	}
	return true
}

// refused reports whether a pod was refused for good: an API server has been told
// that it has failed. A manifest may be mended.
func (a *Agent) refused(pod *v1.Pod) bool {
	return a.pods.isRejected(pod.UID) && !a.gate.holds(pod.UID) && !podconfig.IsStatic(pod)
}

// preempt ends a pod for the sake of another.
func (a *Agent) preempt(victim, critical *v1.Pod) {
	a.log.Warn("pod is preempted", podField(victim), zap.String("for", critical.Namespace+"/"+critical.Name))
	a.opts.Events.Event(reference(victim), v1.EventTypeWarning, admission.ReasonPreempted, admission.MessagePreempted)
	err := a.workers.UpdatePod(podworkers.Update{
		Type: podworkers.UpdateKill, Pod: victim, Received: time.Now(),
		Kill: &podworkers.KillOptions{Evict: true, Status: failAs(admission.ReasonPreempted, admission.MessagePreempted, &v1.PodCondition{
			Type:    v1.DisruptionTarget,
			Status:  v1.ConditionTrue,
			Reason:  v1.PodReasonTerminationByKubelet,
			Message: "Pod was preempted by Kubelet to accommodate a critical pod.",
		})},
	})
	switch {
	case err != nil:
		a.log.Error("could not preempt a pod", podField(victim), zap.Error(err))
	case a.workers.IsPodKnownTerminated(victim.UID): // it had not begun
		a.gate.end(victim.UID)
	}
}

// failAs makes a pod that is ended Failed, unless it has ended by itself. It may
// be applied more than once.
func failAs(reason, message string, condition *v1.PodCondition) func(*v1.PodStatus) {
	return func(status *v1.PodStatus) {
		if isOver(status.Phase) && status.Reason != reason {
			return
		}
		status.Phase, status.Reason, status.Message = v1.PodFailed, reason, message
		if condition == nil || slices.ContainsFunc(status.Conditions, func(c v1.PodCondition) bool { return c.Type == condition.Type && c.Status == condition.Status }) {
			return
		}
		status.Conditions = append(status.Conditions, *condition)
	}
}

// reconsider asks again for the pods that are held, and for resizes that wait.
func (a *Agent) reconsider() {
	g := a.gate
	if node := g.takeSeen(); node != nil {
		g.heard(nodeNews{began: g.asOf, node: node})
	}
	for uid := range g.takeEnded() {
		if info, ok := a.workers.Info(uid); !ok || !info.RestartRequested {
			delete(g.places, uid)
			delete(g.former, uid)
			g.setPending(uid, nil)
		}
	}
	var again []*v1.Pod
	for uid := range g.held {
		if pod, ok := a.pods.get(uid); ok {
			again = append(again, pod)
		} else {
			delete(g.held, uid)
		}
	}
	for _, pod := range g.order(again) {
		a.add(pod)
	}
	for _, pod := range g.waiting() {
		if g.resize(pod) {
			a.update(podworkers.UpdateUpdate, pod)
		}
	}
}

// describe is all that stands in a pod's way, in one line.
func describe(failures []admission.Failure) string {
	texts := make([]string, 0, len(failures))
	for _, f := range failures {
		texts = append(texts, f.Message)
	}
	return strings.Join(texts, "; ")
}
