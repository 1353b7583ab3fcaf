// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

// MirrorEvent is a change of a mirror pod on the API server.
type MirrorEvent struct {
	At   time.Duration
	Name string // of the pod
	What MirrorChange
}

// MirrorChange is the kind of a MirrorEvent.
type MirrorChange string

// The changes.
const (
	MirrorCreated MirrorChange = "mirror pod created" // by the agent
	MirrorDeleted MirrorChange = "mirror pod deleted" // by a user
)

func (r *recorder) mirror(name string, what MirrorChange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Mirrors = append(r.mu.Mirrors, MirrorEvent{r.world.Now(), name, what})
}

// mirrorInFlight is how long a request about a mirror pod may take: an agent creates the mirror pod
// of the manifest before, and replaces it for a cause from before the creation.
const mirrorInFlight = 15 * time.Second

// mirrors checks that a mirror pod is created again only after a change of its static pod, after a
// deletion by a user, or by another agent. A status is no cause.
func (c *checker) mirrors() { c.mirrorsSince(mirrorInFlight) }

// mirrors is checker.mirrors for requests that take no time.
func (p *peace) mirrors() { p.mirrorsSince(0) }

func (c *checker) mirrorsSince(inFlight time.Duration) {
	created := make(map[string]time.Duration)
	for _, e := range c.h.Mirrors {
		if e.What != MirrorCreated {
			continue
		}
		before, again := created[e.Name]
		created[e.Name] = e.At
		if from := c.causedFrom(before, inFlight) - inFlight; again && !c.agentBetween(from, e.At) && !c.mirrorDue(e.Name, from, e.At) {
			c.violate(e.At, "the mirror pod of %s is created again after %.3fs, and nobody has changed or deleted the pod since", e.Name, before.Seconds())
		}
	}
}

// causedFrom returns at, or the time at which the agent was suspended, if the suspension has ended less than lately
// before at. Causes from before the suspension take effect afterwards.
func (c *checker) causedFrom(at, lately time.Duration) time.Duration {
	suspended := time.Duration(-1)
	for _, m := range c.h.Marks {
		switch {
		case m.Kind == MarkAgentSuspended && m.At <= at:
			suspended = m.At
		case m.Kind == MarkAgentResumed && m.At <= at-lately:
			suspended = -1
		}
	}
	if suspended >= 0 {
		return suspended
	}
	return at
}

// mirrorDue reports whether the static pod of a name has changed in a time, or a user has deleted
// its mirror pod.
func (c *checker) mirrorDue(name string, from, to time.Duration) bool {
	if slices.ContainsFunc(c.h.Mirrors, func(e MirrorEvent) bool {
		return e.Name == name && e.What == MirrorDeleted && e.At >= from && e.At <= to
	}) {
		return true
	}
	was := ""
	for _, t := range c.h.Told {
		if t.Source == podconfig.SourceAPI {
			continue
		}
		is := ""
		if i := slices.IndexFunc(t.Pods, func(pod *v1.Pod) bool { return pod.Name == name }); i >= 0 {
			is = string(t.Pods[i].UID) + " " + t.Pods[i].Annotations[podconfig.AnnotationHash]
		}
		if is != was && t.At >= from && t.At <= to {
			return true
		}
		was = is
	}
	return false
}
