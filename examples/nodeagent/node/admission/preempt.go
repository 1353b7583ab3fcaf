// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/podconfig"
)

// ErrNoRoom is returned if preempting every preemptable pod would not free enough.
var ErrNoRoom = errors.New("no set of running pods found to reclaim resources")

// Critical reports whether a pod may preempt others: it is static, a mirror pod, or of
// system-critical priority.
func Critical(pod *v1.Pod) bool { return podconfig.IsCritical(pod) }

// Preemptable reports whether victim may be preempted for pod.
func Preemptable(pod, victim *v1.Pod) bool {
	if Critical(pod) && !Critical(victim) {
		return true
	}
	return pod.Spec.Priority != nil && victim.Spec.Priority != nil && *pod.Spec.Priority > *victim.Spec.Priority
}

// Preempt chooses the pods to preempt so that own, a critical pod, gets the resources in short. It
// prefers best-effort pods to burstable pods, and burstable pods to guaranteed pods, and chooses
// few pods (kubelet 1.36). The error is ErrNoRoom.
func Preempt(own *Demand, active []*Demand, short []Shortage) (victims []*v1.Pod, err error) {
	missing := make([]amount, 0, len(short))
	for _, s := range short {
		missing = append(missing, amount{s.Resource, s.Missing()})
	}
	classes := map[v1.PodQOSClass][]*Demand{}
	for _, d := range active {
		if d.Pod.UID != own.Pod.UID && Preemptable(own.Pod, d.Pod) {
			class := podresources.QOS(d.Pod)
			classes[class] = append(classes[class], d)
		}
	}
	best, burst, sure := classes[v1.PodQOSBestEffort], classes[v1.PodQOSBurstable], classes[v1.PodQOSGuaranteed]
	if len(without(missing, best, burst, sure)) > 0 {
		return nil, ErrNoRoom
	}
	// The guaranteed pods are chosen first: only those needed even if all best-effort and burstable
	// pods end.
	sure = choose(sure, without(missing, best, burst))
	burst = choose(burst, without(missing, best, sure))
	best = choose(best, without(missing, burst, sure))
	for _, d := range slices.Concat(best, burst, sure) {
		victims = append(victims, d.Pod)
	}
	return victims, nil
}

// without returns the amounts that are still missing after the given pods have ended.
func without(missing []amount, ended ...[]*Demand) (left []amount) {
	for _, m := range missing {
		for _, d := range slices.Concat(ended...) {
			m.value -= d.Of(m.name)
		}
		if m.value > 0 {
			left = append(left, m)
		}
	}
	return left
}

// choose repeatedly picks the pod nearest to the missing amounts. All pods together must suffice.
func choose(from []*Demand, missing []amount) (chosen []*Demand) {
	from = slices.Clone(from)
	for len(missing) > 0 && len(from) > 0 {
		nearest := slices.MinFunc(from, func(a, b *Demand) int {
			return cmp.Or(
				cmp.Compare(distance(a, missing), distance(b, missing)),
				cmp.Compare(podfacts.Priority(a.Pod), podfacts.Priority(b.Pod)),
				cmp.Compare(a.Of(v1.ResourceMemory), b.Of(v1.ResourceMemory)),
				cmp.Compare(a.Of(v1.ResourceCPU), b.Of(v1.ResourceCPU)),
				cmp.Compare(a.Pod.UID, b.Pod.UID))
		})
		chosen = append(chosen, nearest)
		from = slices.DeleteFunc(from, func(d *Demand) bool { return d == nearest })
		missing = without(missing, []*Demand{nearest})
	}
	return chosen
}

// distance returns how much would still be missing without the pod: the sum of squares of the
// missing shares. Shares give resources with different units the same weight.
func distance(d *Demand, missing []amount) (sum float64) {
	for _, m := range missing {
		if left := float64(m.value - d.Of(m.name)); left > 0 {
			share := left / float64(m.value)
			sum += share * share
		}
	}
	return sum
}
