// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// order checks that no regular container is started while an init container of its pod runs that
// must complete first according to every manifest of the pod. An init container missing from the
// latest manifest is stopped beside the starts of the others. Starts by injected faults do not
// count.
func (c *checker) order() {
	manifests := c.manifests()
	group := func(i *instance) runtime.Group {
		group := runtime.GroupEphemeral // no container waits for ephemeral containers
		for n, pod := range manifests[i.uid] {
			ref, ok := runtime.Find(pod, i.name)
			if !ok || isSidecar(pod, ref) || n > 0 && ref.Group != group {
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

// manifests returns the submitted versions of each pod, in order.
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

// sidecars checks that no regular container is made while a sidecar is down, as far as the agent
// must have known at the time of its plan, or before the sidecar has passed its startup probe. An
// exception: a container that was stopped for a restart and has ended for good is started, see
// package runtime. Starts by injected faults do not count.
func (c *checker) sidecars() {
	made := make(map[string]int)    // the journal's entries of the agent's creations
	stopped := make(map[string]int) // the journal's first entries of the stops
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
			case before != nil && stopped[before.id] > 0 && stopped[before.id] < side.exit && before.exit < entry &&
				(side.exit < before.exit || endedForGood(manifests[i.uid], before)):
				// The container was stopped while the sidecar ran. It ended after the sidecar, or has ended for good.
			case side.exit < entry && (side.exited < at-staleAfter && !c.suspendedBetween(side.exited, at) ||
				before != nil && side.exit < before.exit && before.exit < entry && stopped[before.id] == 0 && !before.recordsLost && !before.trackLost):
				c.violate(at, "%s (%s %s/%s) is made while sidecar %s of its pod is down, since %.3fs", i.id, i.pod, i.uid, i.name, name, side.exited.Seconds())
			case probed && !passedBy(at, side.id):
				c.violate(at, "%s (%s %s/%s) is made before sidecar %s of its pod has passed its startup probe", i.id, i.pod, i.uid, i.name, name)
			}
		}
	}
}

// endedForGood reports whether the exit of an instance ends its container according to every manifest.
func endedForGood(manifests []*v1.Pod, i *instance) bool {
	var code int32
	_, _ = fmt.Sscanf(i.detail, "code %d", &code)
	return !slices.ContainsFunc(manifests, func(pod *v1.Pod) bool {
		ref, ok := runtime.Find(pod, i.name)
		return !ok || comesAgain(pod, ref.Container(pod), code)
	})
}

// staleAfter is the time after which an agent must know the end of a sidecar. A later creation may
// follow an earlier decision and a slow call.
const staleAfter = 15 * time.Second

// sidecarsOf lists the sidecars that are in every manifest of a pod, if name is a regular container
// in every manifest.
func sidecarsOf(manifests []*v1.Pod, name string) (names []string) {
	for n, pod := range manifests {
		if ref, ok := runtime.Find(pod, name); !ok || ref.Group != runtime.GroupRegular {
			return nil
		}
		var here []string
		for i := range pod.Spec.InitContainers {
			if s := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(s) && (n == 0 || slices.Contains(names, s.Name)) {
				here = append(here, s.Name)
			}
		}
		names = here
	}
	return names
}

// newest returns the instance of a container with the last start before an entry of the journal.
func (c *checker) newest(uid types.UID, name string, before int) (newest *instance) {
	for _, i := range c.instances {
		if i.uid == uid && i.name == name && i.entry < before {
			newest = i
		}
	}
	return newest
}

// passed returns the first time at which each instance is known to be started: by an attempt of its
// startup probe, or by a published status. A sync that waited for volumes considers attempts that
// no status shows yet.
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

// suspendedBetween reports whether an agent was suspended or missing in that time.
func (c *checker) suspendedBetween(from, to time.Duration) bool {
	return slices.ContainsFunc(c.h.Marks, func(m Mark) bool { return m.Kind != MarkRemark && m.At >= from && m.At <= to })
}
