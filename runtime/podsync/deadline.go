// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/alarm"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// Deadline has the time at which a pod becomes Failed, and the reason and message of the status.
type Deadline = podstatus.Override

// errDeadline is the cause of a call's context that ended at the pod's deadline.
var errDeadline = errors.New("the pod has reached its deadline")

// deadline returns the earliest deadline that the hooks set for a pod with this status. A pod in a
// terminal phase has none.
func (p *Pods) deadline(pod *v1.Pod, status *v1.PodStatus) (first Deadline, ok bool) {
	for _, h := range p.opts.Hooks {
		if h.Deadline == nil || podfacts.IsTerminal(status.Phase) {
			continue
		}
		if d, has := h.Deadline(pod, status); has && (!ok || d.At.Before(first.At)) {
			first, ok = d, true
		}
	}
	return first, ok
}

// timeLeft returns the time until the deadline of a pod with this status, 0 or less after the deadline,
// and the longest duration for a pod without a deadline.
func (p *Pods) timeLeft(pod *v1.Pod, status *v1.PodStatus) time.Duration {
	if d, ok := p.deadline(pod, status); ok {
		return time.Until(d.At)
	}
	return alarm.Never
}

// applyDeadline overrides the status of a pod whose deadline has passed, perhaps while no agent
// ran. If the containers had ended earlier, the pod keeps its phase.
func (p *Pods) applyDeadline(in *podstatus.Input) {
	if d, ok := p.deadline(in.Pod, in.Previous); ok && in.Stage == podstatus.StageSync && !in.Now.Before(d.At) {
		in.Override = &d
	}
}

// Revise applies the deadline of a newer version of the pod to the Sync call in progress. The call
// is interrupted at this deadline, or at once if the deadline has passed. Revise returns at once.
// The caller then passes the newer version to Sync.
func (p *Pods) Revise(pod *v1.Pod) {
	r := p.records.find(pod.UID)
	if r == nil {
		return
	}
	r.alarm.Set(p.timeLeft(pod, r.lastStatus(pod)))
}
