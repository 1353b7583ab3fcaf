// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Admission on a peaceful node: the requests of pods never exceed the node's resources. A pod is
// refused only for missing room or for its own properties. A pod is preempted only for a pod that
// may preempt and needs the room.

const (
	reasonOutOf     = "OutOf" // before the name of a resource
	reasonPreempted = "Preempting"
)

// tenant is a life of a pod that may take room.
type tenant struct {
	uid  types.UID
	life int
}

// verdict is the time and the reason of a refusal or preemption.
type verdict struct {
	at     time.Duration
	reason string
}

// turnedAway returns the time and the reason of the refusal or preemption of a life, or forever.
func (p *peace) turnedAway(uid types.UID, life int) (at time.Duration, reason string) {
	if p.room == nil {
		return forever, ""
	}
	v, known := p.away[tenant{uid, life}]
	if !known {
		v = p.verdictOn(uid, life)
		p.away[tenant{uid, life}] = v
	}
	return v.at, v.reason
}

// refused reports whether a pod was never admitted.
func (p *peace) refused(pod *v1.Pod) bool {
	_, life := p.spanAt(pod.UID, p.h.Taken)
	_, reason := p.turnedAway(pod.UID, life)
	return reason != "" && reason != reasonPreempted
}

func (p *peace) verdictOn(uid types.UID, life int) verdict {
	s, before := p.wanted[uid][life], time.Duration(0)
	for _, r := range p.runs {
		if r.uid == uid && r.life < life && r.started < forever {
			before = max(before, r.exited) // until then statuses are about its life
		}
	}
	for i, told := range p.h.Statuses {
		r := reasonOf(&told.Status)
		if r == reasonPreempted && (told.At < before || told.At == before && slices.ContainsFunc(p.h.Statuses[i:], func(later Published) bool {
			return later.Pod.UID == uid && later.At < s.to && later.Status.Phase != v1.PodFailed
		})) {
			continue // the status is about the life before, unless this life is preempted as it begins
		}
		if told.Pod.UID == uid && told.At >= s.from && (told.At < s.to || told.At == s.to && !s.static) && (told.Status.Phase == v1.PodFailed || r == reasonPreempted) &&
			(strings.HasPrefix(r, reasonOutOf) || r == reasonPreempted || r == reasonPorts || slices.Contains(impossibilities, r)) {
			return verdict{told.At, r}
		}
	}
	return verdict{at: forever}
}

// reasonOf returns the reason of a status. The status of a preempted pod has no reason until it fails, and
// none if it succeeds.
func reasonOf(status *v1.PodStatus) string {
	preempted := func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && strings.HasPrefix(c.Message, "Pod was preempted by Kubelet")
	}
	if status.Reason == "" && slices.ContainsFunc(status.Conditions, preempted) {
		return reasonPreempted
	}
	return status.Reason
}

// admissions judges refusals and preemptions, and whether admitted lives fit.
func (p *peace) admissions() {
	for uid, spans := range p.wanted {
		for life := range spans {
			who := tenant{uid, life}
			at, reason := p.turnedAway(uid, life)
			switch never := p.impossible(uid, life); {
			case len(never) > 0 && !p.tookPlace(who) && reason == "" && p.wanted[uid][life].from+soon < min(p.wanted[uid][life].to, p.h.Taken):
				p.violate(p.wanted[uid][life].from, "%s can never run here by reason of %s, and is %q", uid, never, reason)
			case strings.HasPrefix(reason, reasonOutOf):
				p.refusal(who, at, v1.ResourceName(strings.TrimPrefix(reason, reasonOutOf)))
			case reason == reasonPreempted:
				p.preemption(who, at)
			case reason == "" && p.hookCut(who) < forever:
				p.preemption(who, p.hookCut(who))
			case reason == reasonPorts:
				p.portRefusal(who, at)
			case reason != "" && !slices.Contains(p.impossible(uid, life), reason):
				p.violate(at, "%s is refused by reason of %s", uid, reason)
			}
			p.fits(who)
		}
	}
}

// tookPlace reports whether the pod had an earlier life and is not admitted again. A static pod
// with another manifest is.
func (p *peace) tookPlace(t tenant) bool { return t.life > 0 && !p.wanted[t.uid][t.life].static }

// asks returns the amount of a resource taken by a life: cpu in thousandths. For running containers
// the actual amount counts. While a resize waits for room, the amount granted before counts.
func (p *peace) asks(t tenant, name v1.ResourceName, at time.Duration) int64 {
	s := p.wanted[t.uid][t.life]
	wanted := p.manifest(t.uid, max(s.from, min(at, s.to-1)))
	given, granted, pod := make(map[string]v1.ResourceList), p.manifest(t.uid, s.from), wanted
	for _, told := range p.h.Statuses {
		if p.over(t.uid, t.life, 0) < at {
			break // for an ending pod the wanted amount counts
		}
		if told.Pod.UID == t.uid && told.At >= s.from && told.At <= at {
			if _, waits := conditionsOf(&told.Status)[v1.PodResizePending]; waits {
				pod = granted
			} else {
				granted, pod = told.Pod, wanted
			}
			for _, c := range told.Status.ContainerStatuses {
				if given[c.Name] = c.AllocatedResources; c.AllocatedResources == nil {
					delete(given, c.Name) // no container: the manifest counts
				}
			}
		}
	}
	return requested(pod, given, name)
}

// requested returns the amount of a resource requested by a pod: regular containers and sidecars
// run together, and before them an init container beside the sidecars ahead of it. given overrides
// the amounts of containers.
func requested(pod *v1.Pod, given map[string]v1.ResourceList, name v1.ResourceName) int64 {
	if name == v1.ResourcePods {
		return 1
	}
	together, besides, highest := int64(0), int64(0), int64(0)
	for _, c := range pod.Spec.Containers {
		list, ok := given[c.Name]
		if !ok {
			list = c.Resources.Requests
		}
		together += amountOf(list, name)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if amount := amountOf(c.Resources.Requests, name); podfacts.IsSidecar(c) {
			besides += amount
		} else {
			highest = max(highest, besides+amount)
		}
	}
	return max(together+besides, highest)
}

// resizeIs checks that on a node with limits a resize waits while its increase does not fit, and
// for ever if it can never fit.
func (p *peace) resizeIs(pod *v1.Pod, status *v1.PodStatus, truth *runtime.PodStatus) error {
	_, life := p.spanAt(pod.UID, p.h.Taken)
	t := tenant{pod.UID, life}
	want := ""
	for _, n := range needs {
		limit, limited := p.room[n.name]
		amount := requested(pod, nil, n.name)
		if want == "" && limited && amount > p.asks(t, n.name, p.h.Taken) && amount+p.sum(p.others(t, p.h.Taken), n.name, p.h.Taken) > amountOf(p.room, n.name) {
			want = v1.PodReasonDeferred
			if amount > amountOf(v1.ResourceList{n.name: limit}, n.name) {
				want = v1.PodReasonInfeasible
			}
		}
	}
	if want == "" && p.sidecarFell(pod.UID, life, pod, p.h.Taken) {
		return nil // a resize that restarts a container waits for the sidecar
	}
	if want == "" {
		return resized(pod, status, truth)
	}
	for _, c := range status.Conditions {
		if c.Type == v1.PodResizePending {
			return differs("why the resize waits", want, c.Reason)
		}
	}
	return errors.New("its resize finds no room, and does not wait")
}

func amountOf(list v1.ResourceList, name v1.ResourceName) int64 {
	q := list[name]
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// entered returns the time at which a life took its place, or forever: its arrival or, if other
// lives had to end for it, its first status or the creation of its first sandbox. Its containers may
// wait for a key, and its sandbox for volumes.
func (p *peace) entered(t tenant) time.Duration {
	at, known := p.places[t]
	if !known {
		at = p.entry(t)
		p.places[t] = at
	}
	return at
}

func (p *peace) entry(t tenant) time.Duration {
	came := p.wanted[t.uid][t.life].from
	switch _, reason := p.turnedAway(t.uid, t.life); {
	case reason != "" && reason != reasonPreempted:
		return forever
	case !p.critical(t) || p.tookPlace(t) || len(p.short(t, p.others(t, came), came)) == 0:
		return came
	}
	s, first := p.wanted[t.uid][t.life], forever
	for _, e := range p.h.Calls {
		if e.Op == fake.OpRunSandbox && e.Done && e.UID == t.uid && e.At >= s.from && e.At < s.to {
			first = min(first, e.At)
		}
	}
	for _, told := range p.h.Statuses {
		if told.Pod.UID == t.uid && t.life == 0 && told.At >= s.from && told.At < s.to && told.Status.Phase == v1.PodPending {
			first = min(first, told.At)
		}
	}
	return first
}

// leftAt returns the time at which a life released its place: the life has ended or is not wanted,
// and none of its containers runs, or no source has the pod.
func (p *peace) leftAt(t tenant) time.Duration {
	s := p.wanted[t.uid][t.life]
	_, away := p.turnedAway(t.uid, t.life)
	at := min(s.to, p.over(t.uid, t.life, 0))
	for _, r := range p.runs {
		if r.uid == t.uid && r.life == t.life && r.started < forever {
			at = max(at, r.exited)
			if ref, ok := runtime.Find(p.lastManifest(t.uid, t.life), r.name); ok && at < forever && len(r.stops) == 0 && !r.cannotStart && away == "" {
				at = max(at, min(r.started+afterStart(ref.Container(p.lastManifest(t.uid, t.life))), p.hookCut(t)))
			}
		}
	}
	for _, told := range p.h.Told {
		if told.At >= s.to && told.At < at && (told.Source == podconfig.SourceAPI) != s.static && !slices.ContainsFunc(told.Pods, func(pod *v1.Pod) bool { return pod.UID == t.uid }) {
			return told.At
		}
	}
	return at
}

// hookCut returns the time of the preemption of a life whose containers have ended by themselves while a
// postStart hook sleeps, or forever. The preemption cuts the hook; only its event tells, because the
// phase of the pod is terminal and stays.
func (p *peace) hookCut(t tenant) time.Duration {
	s, over := p.wanted[t.uid][t.life], p.over(t.uid, t.life, 0)
	for _, e := range p.h.Events {
		if e.UID == t.uid && e.Reason == reasonPreempted && e.At >= max(s.from, over) && e.At < s.to {
			return e.At
		}
	}
	return forever
}

// others returns the lives with a place before and after some time, except lives that this life
// replaces under its name.
func (p *peace) others(t tenant, at time.Duration) []tenant { return p.holders(t, at, at-1, at+1) }

// touching returns others, and the lives that entered or left at this time: each of them can have
// come before t, in the order within an instant.
func (p *peace) touching(t tenant, at time.Duration) []tenant { return p.holders(t, at, at, at) }

// holders returns the lives that entered until, and left not before, the given times.
func (p *peace) holders(t tenant, at, entered, left time.Duration) (all []tenant) {
	own := p.wanted[t.uid][t.life]
	name := p.manifest(t.uid, own.from).Name
	for uid, spans := range p.wanted {
		for life := range spans {
			other := tenant{uid, life}
			beside := uid == t.uid || own.static && spans[life].static && p.manifest(uid, spans[life].from).Name == name
			replaced := life+1 < len(spans) && spans[life+1].from < at // the next life has its place
			if !beside && !replaced && spans[life].from <= entered && p.entered(other) <= entered && p.leftAt(other) >= left {
				all = append(all, other)
			}
		}
	}
	return all
}

// staying removes the lives that are about to end.
func (p *peace) staying(lives []tenant, at time.Duration) []tenant {
	return slices.DeleteFunc(lives, func(o tenant) bool {
		return p.wanted[o.uid][o.life].to < at || p.over(o.uid, o.life, 0) < at && !p.endsSidecars(o) && !p.endsHook(o, at)
	})
}

// endsHook reports whether all containers of a life with a place have ended by themselves, and a postStart hook that
// sleeps goes on. The gate learns of the end of the life after the hook.
func (p *peace) endsHook(t tenant, at time.Duration) bool {
	_, reason := p.turnedAway(t.uid, t.life)
	return reason == "" && !slices.ContainsFunc(p.runs, func(r *run) bool {
		return r.uid == t.uid && r.life == t.life && r.started <= at && r.exited > at
	})
}

// endsSidecars reports whether a life ends by itself and has sidecars. The sync that ends the sidecars
// takes their grace periods, and the gate learns of the end of the life afterwards.
func (p *peace) endsSidecars(t tenant) bool {
	_, reason := p.turnedAway(t.uid, t.life)
	return reason == "" && p.hasSidecars(t)
}

func (p *peace) hasSidecars(t tenant) bool {
	return slices.ContainsFunc(p.lastManifest(t.uid, t.life).Spec.InitContainers, func(c v1.Container) bool { return podfacts.IsSidecar(&c) })
}

func (p *peace) sum(all []tenant, name v1.ResourceName, at time.Duration) (sum int64) {
	for _, t := range all {
		sum += p.asks(t, name, at)
	}
	return sum
}

// short returns the resources that a life lacks beside the given lives.
func (p *peace) short(t tenant, beside []tenant, at time.Duration) (names []v1.ResourceName) {
	for name := range p.room {
		if own := p.asks(t, name, at); own > 0 && own+p.sum(beside, name, at) > amountOf(p.room, name) {
			names = append(names, name)
		}
	}
	return names
}

// fits judges that an admitted life had room.
func (p *peace) fits(t tenant) {
	at := p.entered(t)
	if at == forever || p.tookPlace(t) || p.agentBetween(p.wanted[t.uid][t.life].from+1, at) {
		return
	}
	if short := p.short(t, p.others(t, at), at); len(short) > 0 {
		p.violate(at, "%s is admitted, and there is not enough %v", t.uid, short)
	}
	if p.portTaken(t, at) {
		p.violate(at, "%s is admitted, and another pod has its host port", t.uid)
	}
}

// waits reports whether a pod waits for the end of other pods.
func (p *peace) waits(pod *v1.Pod) bool {
	_, life := p.spanAt(pod.UID, p.h.Taken)
	if p.hazy(tenant{pod.UID, life}) {
		return true
	}
	return p.room != nil && !p.refused(pod) && p.beginOf(pod.UID, life) > p.h.Taken-soon
}

// hazy reports whether a life may have to wait for a life that ended before, because agents look at
// ended pods only from time to time.
func (p *peace) hazy(t tenant) bool {
	return p.room != nil && p.critical(t) && slices.ContainsFunc(p.others(t, p.wanted[t.uid][t.life].from), func(o tenant) bool {
		return p.yields(o, t) && p.afterReview(o.uid, o.life) > 0
	})
}

// critical reports whether a life may preempt others.
func (p *peace) critical(t tenant) bool {
	s := p.wanted[t.uid][t.life]
	return s.static || p.priority(t) >= 2_000_000_000
}

func (p *peace) priority(t tenant) int32 {
	if n := p.manifest(t.uid, p.wanted[t.uid][t.life].from).Spec.Priority; n != nil {
		return *n
	}
	return 0
}

func (p *peace) hasPriority(t tenant) bool {
	return p.manifest(t.uid, p.wanted[t.uid][t.life].from).Spec.Priority != nil
}

// yields reports whether a life may be preempted for another.
func (p *peace) yields(victim, t tenant) bool {
	return p.critical(t) && !p.critical(victim) || p.hasPriority(t) && p.hasPriority(victim) && p.priority(t) > p.priority(victim)
}

// makesRoom returns the time at which all lives have ended that a life waits for.
func (p *peace) makesRoom(t tenant, begin time.Duration) time.Duration {
	for {
		others := slices.DeleteFunc(p.others(t, begin+1), func(o tenant) bool {
			ended, reason := p.turnedAway(o.uid, o.life)
			return reason == reasonPreempted && ended <= begin+1 && !slices.ContainsFunc(p.runs, func(r *run) bool { return r.uid == o.uid && r.life == o.life }) // ended at once
		})
		if len(p.short(t, others, begin+1)) == 0 {
			return begin
		}
		next := forever
		for _, o := range others {
			next = min(next, p.leftAt(o))
		}
		if next == forever || next <= begin {
			return next
		}
		begin = next
	}
}

// refusal judges that a resource was insufficient, even after all possible preemptions.
func (p *peace) refusal(t tenant, at time.Duration, name v1.ResourceName) {
	if len(p.impossible(t.uid, t.life)) > 0 || slices.ContainsFunc(p.runs, func(r *run) bool { return p.completedByProbe(r.uid) }) {
		return // its end may not be known yet
	}
	if !slices.Contains(p.short(t, p.touching(t, at), at), name) {
		p.violate(at, "%s is refused for want of %s, and there is enough", t.uid, name)
	}
	if !p.critical(t) || p.portTaken(t, at) {
		return
	}
	firm := slices.DeleteFunc(p.staying(p.touching(t, at), at), func(o tenant) bool { return p.yields(o, t) })
	if len(p.short(t, firm, at)) == 0 {
		p.violate(at, "%s is refused for want of %s, and others would have to end for it", t.uid, name)
	}
}

// preemption judges that a life was ended for another life that needed its room.
func (p *peace) preemption(victim tenant, at time.Duration) {
	for uid, spans := range p.wanted {
		for life, s := range spans {
			t := tenant{uid, life}
			if s.from > at || s.from+time.Minute < at || !p.yields(victim, t) || p.tookPlace(t) {
				continue
			}
			for _, at := range []time.Duration{at, at + 1} { // another life may enter at this instant
				spared := slices.DeleteFunc(p.staying(p.others(t, at), at), func(o tenant) bool {
					ended, reason := p.turnedAway(o.uid, o.life)
					cheaper := p.yields(o, t) && p.class(o) < p.class(victim)
					return o != victim && (reason == reasonPreempted && ended == at || cheaper)
				})
				if len(p.short(t, append(spared, victim), at)) > 0 || len(p.short(t, spared, at)) > 0 {
					return
				}
			}
		}
	}
	p.violate(at, "%s is preempted, and no pod that may do so needs its room", victim.uid)
}

// class returns the QoS class of a life as a number.
func (p *peace) class(t tenant) int { return classOf(p.manifest(t.uid, p.wanted[t.uid][t.life].from)) }

// classOf returns 0 for a pod without requests, 2 if each container has limits for cpu and memory, equal
// to its requests, else 1.
func classOf(pod *v1.Pod) int {
	none, all := true, true
	for _, c := range allContainers(pod) {
		cpu, memory := c.Resources.Limits.Cpu().IsZero(), c.Resources.Limits.Memory().IsZero()
		firm := amountOf(c.Resources.Limits, v1.ResourceCPU) == amountOf(c.Resources.Requests, v1.ResourceCPU) &&
			amountOf(c.Resources.Limits, v1.ResourceMemory) == amountOf(c.Resources.Requests, v1.ResourceMemory)
		none, all = none && cpu && memory, all && !cpu && !memory && firm
	}
	switch {
	case none:
		return 0
	case all:
		return 2
	}
	return 1
}
