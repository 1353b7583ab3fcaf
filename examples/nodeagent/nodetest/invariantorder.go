// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// order: no regular container is started while an init container of its pod runs that
// has to complete first, by every manifest that the pod ever had: one that is not in the
// latest is stopped beside the others' start. What somebody else started is not the
// agent's doing.
func (c *checker) order() {
	manifests := c.manifests()
	group := func(i *instance) runtime.Group {
		group := runtime.GroupEphemeral // nobody waits for these
		for n, pod := range manifests[i.uid] {
			ref, ok := runtime.Find(pod, i.name)
			if !ok || runtime.IsSidecar(ref.Container(pod)) || n > 0 && ref.Group != group {
				return runtime.GroupEphemeral
			}
			group = ref.Group
		}
		return group
	}
	running := make(map[types.UID][]*instance) // plain init containers
	for _, i := range c.instances {
		switch group(i) {
		case runtime.GroupInit:
			if i.called >= 0 {
				running[i.uid] = append(running[i.uid], i)
			}
		case runtime.GroupRegular:
			for _, first := range running[i.uid] {
				if i.called >= 0 && first.entry < i.entry && i.entry < first.exit && first.started <= i.called {
					c.violate(i.called, "start of %s (%s %s/%s) while init container %s of its pod still ran", i.id, i.pod, i.uid, i.name, first.name)
				}
			}
		}
	}
}

// manifests are all that agents were told of each pod, in order.
func (c *checker) manifests() map[types.UID][]*v1.Pod {
	manifests := make(map[types.UID][]*v1.Pod)
	for _, t := range c.h.Told {
		for _, pod := range t.Pods {
			if all := manifests[pod.UID]; len(all) == 0 || all[len(all)-1] != pod {
				manifests[pod.UID] = append(all, pod)
			}
		}
	}
	return manifests
}

// sidecars: no regular container is made while a sidecar is down, as far as the agent
// must have known when it planned that, or before the sidecar has passed its startup
// probe. A container that was stopped to be started again is, if that has ended it for
// good; see package runtime. What somebody else started is not the agent's doing.
func (c *checker) sidecars() {
	made := make(map[string]int)    // the journal's entries about when the agent asked for instances
	stopped := make(map[string]int) // the first entry about their stop
	for n, e := range c.h.Calls {
		switch e.Op {
		case fake.OpCreateContainer:
			made[e.ID] = n
		case fake.OpStopContainer:
			if stopped[e.ID] == 0 {
				stopped[e.ID] = n
			}
		}
	}
	manifests, passed := c.manifests(), c.passed()
	passedBy := func(at time.Duration, id string) bool {
		first, ok := passed[id]
		return ok && first <= at
	}
	for _, i := range c.instances {
		if i.called < 0 {
			continue
		}
		entry, ok := made[i.id]
		if !ok {
			entry = i.entry
		}
		at := c.h.Calls[entry].At
		for _, name := range sidecarsOf(manifests[i.uid], i.name) {
			side := c.newest(i.uid, name, entry)
			probed := !slices.ContainsFunc(manifests[i.uid], func(pod *v1.Pod) bool {
				ref, _ := runtime.Find(pod, name)
				return ref.Container(pod).StartupProbe == nil
			})
			before := c.newest(i.uid, i.name, entry)
			switch {
			case side == nil:
				c.violate(at, "%s (%s %s/%s) is made before sidecar %s of its pod", i.id, i.pod, i.uid, i.name, name)
			case side.called < 0 || side.recordsLost || side.trackLost:
			case before != nil && stopped[before.id] > 0 && stopped[before.id] < side.exit && side.exit < before.exit && before.exit < entry:
				// It was stopped when the sidecar ran, and has ended after it.
			case side.exit < entry && (side.exited < at-staleAfter && !c.suspendedBetween(side.exited, at) ||
				before != nil && side.exit < before.exit && before.exit < entry && stopped[before.id] == 0 && !before.recordsLost && !before.trackLost):
				c.violate(at, "%s (%s %s/%s) is made while sidecar %s of its pod is down, since %.3fs", i.id, i.pod, i.uid, i.name, name, side.exited.Seconds())
			case probed && !passedBy(at, side.id):
				c.violate(at, "%s (%s %s/%s) is made before sidecar %s of its pod has passed its startup probe", i.id, i.pod, i.uid, i.name, name)
			}
		}
	}
}

// staleAfter is by when an agent must have known that a sidecar had ended: what it makes
// then it may have decided to make before, and have waited for a call that is slow.
const staleAfter = 15 * time.Second

// sidecarsOf lists the sidecars that a pod has by each of its manifests, if by each
// of them name is a regular container.
func sidecarsOf(manifests []*v1.Pod, name string) (names []string) {
	for n, pod := range manifests {
		if ref, ok := runtime.Find(pod, name); !ok || ref.Group != runtime.GroupRegular {
			return nil
		}
		var here []string
		for i := range pod.Spec.InitContainers {
			if s := &pod.Spec.InitContainers[i]; runtime.IsSidecar(s) && (n == 0 || slices.Contains(names, s.Name)) {
				here = append(here, s.Name)
			}
		}
		names = here
	}
	return names
}

// newest is the instance of a container that was started last before an entry of the
// journal.
func (c *checker) newest(uid types.UID, name string, before int) (newest *instance) {
	for _, i := range c.instances {
		if i.uid == uid && i.name == name && i.entry < before {
			newest = i
		}
	}
	return newest
}

// passed is when each instance is first known to be started: by an attempt of its startup probe, or by the status that an
// agent has published. A sync that waited for volumes goes by attempts that no status tells of yet.
func (c *checker) passed() map[string]time.Duration {
	passed := make(map[string]time.Duration)
	note := func(id string, at time.Duration) {
		if first, known := passed[id]; !known || at < first {
			passed[id] = at
		}
	}
	for _, p := range c.h.Probes {
		if p.Type == prober.Startup && p.Well {
			note(p.ID, p.At)
		}
	}
	for _, s := range c.h.Statuses {
		for i := range s.Status.InitContainerStatuses {
			status := &s.Status.InitContainerStatuses[i]
			if _, id, _ := strings.Cut(status.ContainerID, "://"); status.Started != nil && *status.Started {
				note(id, s.At)
			}
		}
	}
	return passed
}

// suspendedBetween reports whether an agent was suspended or not there in that time.
func (c *checker) suspendedBetween(from, to time.Duration) bool {
	return slices.ContainsFunc(c.h.Marks, func(m Mark) bool { return m.Kind != MarkRemark && m.At >= from && m.At <= to })
}
