// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// deadlineOf returns the time at which a life exceeds its deadline. For an agent that finds a
// static pod, the pod began with its oldest sandbox, which may belong to an earlier life, or at the
// first sight of a pod that waits for a supply or for a namesake. A pod that waits for a supply may have
// waited for the end of preempted pods before. In these cases the published time is accepted. Without a
// sandbox the next agent starts the pod again, with its whole deadline.
func (p *peace) deadlineOf(uid types.UID, life int) time.Duration {
	pod := p.lastManifest(uid, life)
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return forever
	}
	until := p.wanted[uid][life].to
	life = p.firstOf(uid, life)
	if s := p.wanted[uid][life]; s.static && (life > 0 && p.agentBetween(s.from, min(s.to, p.h.Taken)) || p.lacked(pod, s.from) && (p.agentBetween(s.from+1, min(s.to, p.h.Taken)) || p.preemptsAfter(s.from)) || p.awaitsStranger(uid, life)) {
		at := forever
		for _, told := range p.h.Statuses {
			switch {
			case told.Pod.UID != uid || told.At < s.from || told.At > until:
			case told.Status.Reason == reasonDeadline:
				at = min(at, told.At)
			case !over(told.Status.Phase) && told.At < until: // otherwise a status of the next life
				at = forever
			}
		}
		return at
	}
	return p.startOf(uid, life).Truncate(time.Second) + time.Duration(*pod.Spec.ActiveDeadlineSeconds)*time.Second
}

// preemptsAfter reports whether a pod was preempted after some time.
func (p *peace) preemptsAfter(at time.Duration) bool {
	return slices.ContainsFunc(p.h.Statuses, func(s Published) bool { return s.At > at && s.Status.Reason == reasonPreempted })
}

// firstOf returns the life before all restarts of all containers in place.
func (p *peace) firstOf(uid types.UID, life int) int {
	for p.goesOn[tenant{uid, life}] {
		life--
	}
	return life
}

// startOf returns the start time of a pod. The agent that has started the pod knows the fraction of
// the second. An API server, and agents that read from it, have whole seconds.
func (p *peace) startOf(uid types.UID, life int) time.Duration {
	life = p.firstOf(uid, life)
	start := p.freeOf(uid, life)
	if i := slices.IndexFunc(p.runs, func(r *run) bool { return r.uid == uid && r.life == life }); i >= 0 && !p.lacked(p.lastManifest(uid, life), start) {
		start = p.runs[i].created
	}
	return start
}
