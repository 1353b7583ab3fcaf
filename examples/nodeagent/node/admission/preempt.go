// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
)

// MakeRoom returns the pods to preempt for a pod that Check refuses. failures are the results of
// Check, and staying are the demands of the active pods that are not ending. If refused is empty,
// the caller stops the victims, and the pod waits for their end. victims is empty if pods that are
// already ending free enough. refused has the reasons to refuse the pod if the pod is not critical,
// if it lacks something other than resources, or if preemption cannot free enough.
//
// MakeRoom chooses few victims: best-effort pods first, then burstable pods, then guaranteed pods,
// as the kubelet (1.36) does.
func MakeRoom(node *Node, own *Demand, failures []Failure, staying iter.Seq[*Demand]) (victims []*v1.Pod, refused []Failure) {
	if !own.critical || slices.ContainsFunc(failures, func(f Failure) bool { return f.Shortage == nil }) {
		return nil, failures
	}
	active := slices.Collect(staying)
	var missing []amount
	for _, s := range fits(node, UsageOf(active...), own) {
		missing = append(missing, amount{name: s.Resource, value: s.Missing()})
	}
	victims, ok := preempt(own, active, missing)
	if !ok {
		refused = slices.Clone(failures)
		refused[0].Message += "; preemption: no set of running pods found to reclaim resources"
	}
	return victims, refused
}

// MayPreempt reports whether victim may be preempted for d. Critical pods are static pods, mirror pods,
// and pods of system-critical priority.
func (d *Demand) MayPreempt(victim *Demand) bool {
	if d.critical && !victim.critical {
		return true
	}
	own, its := d.Pod.Spec.Priority, victim.Pod.Spec.Priority
	return own != nil && its != nil && *own > *its
}

// preempt chooses the pods to preempt so that own gets the missing amounts. ok is false if preempting
// every preemptable pod would not free enough.
func preempt(own *Demand, active []*Demand, missing []amount) (victims []*v1.Pod, ok bool) {
	classes := map[v1.PodQOSClass][]*Demand{}
	for _, d := range active {
		if d.Pod.UID != own.Pod.UID && own.MayPreempt(d) {
			class := podresources.QOS(d.Pod)
			classes[class] = append(classes[class], d)
		}
	}
	best, burst, sure := classes[v1.PodQOSBestEffort], classes[v1.PodQOSBurstable], classes[v1.PodQOSGuaranteed]
	if len(without(missing, best, burst, sure)) > 0 {
		return nil, false
	}
	// The guaranteed pods are chosen first: only those needed even if all best-effort and burstable
	// pods end.
	sure = choose(sure, without(missing, best, burst))
	burst = choose(burst, without(missing, best, sure))
	best = choose(best, without(missing, burst, sure))
	for _, d := range slices.Concat(best, burst, sure) {
		victims = append(victims, d.Pod)
	}
	return victims, true
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
