// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// stops checks that an agent stops a container only for one of these causes. The pod or the
// container is not wanted any more, has another image, or ends by itself. A probe or a hook fails.
// The sandbox is not usable. A rule restarts all containers. The runtime has lost track of the
// container, or has a newer instance.
func (c *checker) stops() {
	manifests := c.told()
	for n, e := range c.h.Calls {
		i := c.byID[e.ID]
		if e.Op != fake.OpStopContainer || i == nil || i.called < 0 || i.started > e.At || i.exit < n {
			continue
		}
		if !c.mayStop(i, n, manifests[i.uid]) {
			c.violate(e.At, "%s (%s %s/%s) is stopped without a cause", i.id, i.pod, i.uid, i.name)
		}
	}
}

// told returns the submissions of each pod, each with this pod only, in order.
func (c *checker) told() map[types.UID][]Told {
	all := make(map[types.UID][]Told)
	for _, t := range c.h.Told {
		for _, pod := range t.Pods {
			all[pod.UID] = append(all[pod.UID], Told{t.At, t.Source, []*v1.Pod{pod}})
		}
	}
	return all
}

// mayStop reports whether the stop at an entry of the journal has a cause.
func (c *checker) mayStop(i *instance, entry int, told []Told) bool {
	at := c.h.Calls[entry].At
	s, n := c.spanAt(i.uid, at)
	if n < 0 || s.to <= at || n > 0 && s.from >= i.began() || i.trackLost || c.stopsAgent(at) || c.stateTold(i.uid, i.began(), at) || c.sandboxTrouble(i, entry) {
		return true
	}
	var pod *v1.Pod
	var own *v1.Container
	for n, t := range told {
		if t.At > at || n+1 < len(told) && told[n+1].At <= at-toldLate {
			continue
		}
		pod = t.Pods[0]
		ref, ok := runtime.Find(pod, i.name)
		if !ok || ref.Container(pod).Image != i.image {
			return true
		}
		if own = ref.Container(pod); len(own.ResizePolicy) > 0 || own.Lifecycle != nil && own.Lifecycle.PostStart != nil {
			return true
		}
	}
	if pod == nil {
		return true
	}
	if (own.LivenessProbe != nil || own.StartupProbe != nil) && c.probeFailed(i, at) {
		return true
	}
	if d := pod.Spec.ActiveDeadlineSeconds; d != nil && at >= c.wanted[i.uid][0].from+time.Duration(*d-1)*time.Second {
		return true
	}
	return c.superseded(i, entry) || c.endsByItself(pod, entry)
}

// superseded reports whether the container has another running instance, or a newer instance, which
// the call of a crashed agent may have created.
func (c *checker) superseded(i *instance, entry int) bool {
	return slices.ContainsFunc(c.instances, func(o *instance) bool {
		return o != i && o.uid == i.uid && o.name == i.name && o.entry < entry && o.exit > entry
	}) || slices.ContainsFunc(c.h.Calls[:entry], func(e fake.Entry) bool {
		return e.Op == fake.OpCreateContainer && e.Done && e.UID == i.uid && e.Container == i.name && e.ID != i.id && e.DoneAt > i.began()
	})
}

// stopsAgent reports whether an agent is being stopped at that time.
func (c *checker) stopsAgent(at time.Duration) (stops bool) {
	for _, m := range c.h.Marks {
		switch {
		case m.At > at:
		case m.Kind == MarkAgentStarted:
			stops = false
		case m.Kind == MarkRemark && strings.HasPrefix(m.Text, "> agent "):
			stops = strings.HasSuffix(m.Text, " stop") || strings.HasSuffix(m.Text, " restart")
		}
	}
	return stops
}

// stateTold reports whether a status in that time gives a reason for the state of the whole pod: the
// pod was evicted, preempted, or has exceeded a deadline.
func (c *checker) stateTold(uid types.UID, from, to time.Duration) bool {
	return slices.ContainsFunc(c.h.Statuses, func(s Published) bool {
		return s.Pod.UID == uid && s.At >= from && s.At <= to && reasonOf(&s.Status) != ""
	})
}

// sandboxTrouble reports whether the sandbox of an instance has lost its address or was stopped, or
// the pod has another sandbox.
func (c *checker) sandboxTrouble(i *instance, entry int) bool {
	sandboxes := 0
	for _, e := range c.h.Calls[:entry] {
		switch {
		case e.UID != i.uid:
		case e.Op == fake.OpLostIP:
			return true
		case e.Op == fake.OpStopSandbox && e.At >= i.began():
			return true
		case e.Op == fake.OpRunSandbox && e.Done:
			sandboxes++
		case e.Op == fake.OpRemoveSandbox && e.Done:
			sandboxes--
		}
	}
	return sandboxes > 1
}

// probeFailed reports whether an attempt of a probe of an instance has failed, or was not answered in
// time. A suspended agent receives no answers.
func (c *checker) probeFailed(i *instance, at time.Duration) bool {
	return slices.ContainsFunc(c.h.Probes, func(p Probed) bool { return p.ID == i.id && !p.Well && p.At <= at }) ||
		slices.ContainsFunc(c.h.Marks, func(m Mark) bool {
			return (m.Kind == MarkAgentSuspended || m.Kind == MarkAgentResumed) && m.At >= i.started && m.At <= at // an agent may end suspended
		}) ||
		slices.ContainsFunc(c.h.Calls, func(e fake.Entry) bool {
			return e.Op == fake.OpExec && e.ID == i.id && e.At <= at && (e.Err != nil || e.UnderWay || e.Took >= time.Second)
		})
}

// endsByItself reports whether a pod ends at an entry of the journal: its regular containers or an init
// container have ended for good, or a rule restarts all containers.
func (c *checker) endsByItself(pod *v1.Pod, entry int) bool {
	codes := make(map[string]int32) // of the last exits
	oom, lost := make(map[string]bool), make(map[string]bool)
	for _, e := range c.h.Calls[:entry] {
		if e.UID != pod.UID {
			continue
		}
		switch e.Op {
		case fake.OpStartContainer:
			delete(codes, e.Container)
			delete(lost, e.Container)
		case fake.OpLostRecords:
			lost[e.Container] = true // no rule matches an exit that nobody knows
		case fake.OpExited:
			var code int32
			_, _ = fmt.Sscanf(e.Detail, "code %d", &code)
			codes[e.Container], oom[e.Container] = code, strings.Contains(e.Detail, runtime.ReasonOOMKilled)
			if ref, ok := runtime.Find(pod, e.Container); ok && canRestartAll(ref.Container(pod)) {
				return true
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		own := &pod.Spec.InitContainers[i]
		code, ended := codes[own.Name]
		if ended && isPlainInit(pod, own) && (code != 0 || oom[own.Name]) && !comesAgain(pod, own, 1) {
			return true
		}
	}
	return !slices.ContainsFunc(pod.Spec.Containers, func(own v1.Container) bool {
		code, ended := codes[own.Name]
		return !ended || comesAgain(pod, &own, code) && !lost[own.Name]
	})
}

// finals checks that a regular container that has ended for good by itself is not started again in
// the same life of its pod.
func (c *checker) finals() {
	stopped, made := make(map[string]bool), make(map[string]int)
	for n, e := range c.h.Calls {
		switch e.Op {
		case fake.OpStopContainer:
			stopped[e.ID] = true
		case fake.OpCreateContainer:
			made[e.ID] = n
		}
	}
	manifests, last := c.manifests(), make(map[string]*instance)
	for _, i := range c.instances {
		key := string(i.uid) + "/" + i.name
		before := last[key]
		last[key] = i
		if before == nil || i.called < 0 || before.recordsLost || before.trackLost || stopped[before.id] || before.exit > made[i.id] || c.unheeded(before) ||
			c.lifeOf(i.uid, before.began()) != c.lifeOf(i.uid, i.began()) {
			continue
		}
		var code int32
		_, _ = fmt.Sscanf(before.detail, "code %d", &code)
		if !slices.ContainsFunc(manifests[i.uid], func(pod *v1.Pod) bool {
			ref, ok := runtime.Find(pod, i.name)
			return !ok || ref.Group != runtime.GroupRegular || slices.ContainsFunc(allContainers(pod), canRestartAll) || comesAgain(pod, ref.Container(pod), code)
		}) {
			c.violate(i.called, "%s (%s %s/%s) is started, and %s has ended for good with code %d", i.id, i.pod, i.uid, i.name, before.id, code)
		}
	}
}
