// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/podstatus"
	"github.com/keelson-dev/keelson/statusmanager"
)

// What is judged by the statuses that agents published.

// life is a pod's, under one UID: from the time it is wanted until it is not, or
// has another manifest.
type lifeKey struct {
	uid types.UID
	n   int
}

func (c *checker) lifeOf(uid types.UID, at time.Duration) lifeKey {
	_, n := c.spanAt(uid, at)
	return lifeKey{uid, n}
}

// phases: nothing comes back from an end. The last words about a life may be said
// when the pod is wanted again; then the next life begins after them, once.
func (c *checker) phases() {
	ended, begun := make(map[lifeKey]Published), make(map[lifeKey]bool)
	for _, s := range c.h.Statuses {
		life := c.lifeOf(s.Pod.UID, s.At)
		before, was := ended[life]
		switch {
		case was && s.Status.Phase != before.Status.Phase && life.n > 0 && !begun[life]:
			begun[life] = true
			delete(ended, life)
		case was && s.Status.Phase != before.Status.Phase && !c.forgotten(before, s.At) && !c.declared(s):
			c.violate(s.At, "phase of %s (%s) goes from %s to %s", s.Pod.Name, s.Pod.UID, before.Status.Phase, s.Status.Phase)
			delete(ended, life)
		case over(s.Status.Phase):
			ended[life] = s
		default:
			delete(ended, life)
		}
	}
	for _, i := range c.instances {
		if i.called < 0 {
			continue
		}
		for _, s := range c.h.Statuses {
			if s.Pod.UID == i.uid && s.At < i.called && over(s.Status.Phase) && c.lifeOf(i.uid, s.At) == c.lifeOf(i.uid, i.called) &&
				c.hadBegun(i.uid, s.At) && !c.mayStartAgain(s, i.called) {
				c.violate(i.called, "start of %s (%s/%s), although the pod was %s at %.3fs", i.id, i.uid, i.name, s.Status.Phase, s.At.Seconds())
				break
			}
		}
	}
}

// hadBegun: what is published at that time is about the present life, not about the
// one before.
func (c *checker) hadBegun(uid types.UID, at time.Duration) bool {
	s, n := c.spanAt(uid, at)
	if n == 0 {
		return true
	}
	for _, i := range c.instances {
		if i.uid == uid && i.called > s.from && i.started < at {
			return true
		}
	}
	return false
}

// mayStartAgain: another agent starts a pod again that had ended before, as published.
// An agent that stops its pods when it ends means that. And where somebody has removed
// all records of a container, nobody can know that it ran: the end of a static pod is
// on record in the runtime alone, and an API server may not have been told.
func (c *checker) mayStartAgain(ended Published, at time.Duration) bool {
	if ended.Status.Reason == reasonDeadline && c.isStatic(ended.Pod.UID) && c.agentBetween(ended.At, at) {
		return true // to the next agent the pod began with its oldest sandbox, a moment later
	}
	return c.agentBetween(ended.At, at) && (ended.Status.Reason == "Terminated" || c.lostRecords(ended.Pod.UID, at))
}

// forgotten: another agent says again that a pod has not ended, and may start it again;
// or it does not, but an API server was not told of the end before the agent had begun to
// read from it: until the agent has read the runtime's records, or has stopped a pod that
// is being deleted once more, that server's word is the last that it knows.
func (c *checker) forgotten(ended Published, at time.Duration) bool {
	known := at - toldLate
	for _, m := range c.h.Marks {
		if m.Kind == MarkAgentStarted && m.At <= at {
			known = max(known, m.At)
		}
	}
	uid := ended.Pod.UID
	return c.mayStartAgain(ended, at) || c.agentBetween(ended.At, at) && !c.isStatic(uid) && !c.arrived(ended, known)
}

// declared: somebody has declared that the pod has failed. The API server heard that
// before it was told of another end, and holds on to it; so does the next agent.
func (c *checker) declared(s Published) bool {
	return s.Status.Phase == v1.PodFailed && s.Status.Reason == declaredFailed
}

// toldLate is after what time a call for a pod, which may be under way, has heard of
// what its source said.
const toldLate = 5 * time.Second

// arrived: the API server was told of the end before that time.
func (c *checker) arrived(ended Published, until time.Duration) bool {
	for _, r := range c.h.Requests {
		if r.Pod.UID == ended.Pod.UID && r.Request == statusmanager.RequestPatch && over(r.Phase) && r.At+r.Took < until {
			return true
		}
	}
	return false
}

func (c *checker) lostRecords(uid types.UID, until time.Duration) bool {
	for _, e := range c.h.Calls {
		if e.Op == fake.OpLostRecords && e.UID == uid && e.At <= until {
			return true
		}
	}
	return false
}

// reported is what statuses said of instances that ended.
type reported map[string]*v1.ContainerStateTerminated // by ID

func (c *checker) reports() reported {
	r := make(reported)
	for _, s := range c.h.Statuses {
		for _, list := range [][]v1.ContainerStatus{s.Status.InitContainerStatuses, s.Status.ContainerStatuses} {
			for i := range list {
				for _, t := range []*v1.ContainerStateTerminated{list[i].State.Terminated, list[i].LastTerminationState.Terminated} {
					if t == nil || t.ContainerID == "" {
						continue
					}
					_, id, _ := strings.Cut(t.ContainerID, "://")
					if c.contradicts(id, t, s.At) {
						c.violate(s.At, "%s of %s is published as ended with code %d (%s), and did with %s", id, s.Pod.UID, t.ExitCode, t.Reason, c.byID[id].detail)
					}
					r[id] = t
				}
			}
		}
	}
	return r
}

// contradicts: what is published of an end is not what happened. That it is not known is
// a true word, with the kubelet, on an instance that the runtime has lost sight of, be it
// that it still runs; that somebody removed; that an agent which is newer than the end
// finds running by the API server's last word, when its record has gone since, as records
// of older instances do; and that was removed as it began to run (unheeded).
func (c *checker) contradicts(id string, t *v1.ContainerStateTerminated, at time.Duration) bool {
	i := c.byID[id]
	switch {
	case i == nil, t.Reason == podstatus.ReasonRestartingAll && !i.running:
		return false
	case t.Reason == podstatus.ReasonStatusUnknown && (i.recordsLost || i.trackLost || c.unheeded(i) || !i.running && c.agentBetween(i.exited, at)):
		return false
	}
	return i.running || i.detail != fmt.Sprintf("code %d (%s)", t.ExitCode, t.Reason)
}

// unheeded: the agent that asked for the instance's start was gone when it took effect.
// The next one may have seen an instance that never ran, and removed it: no runtime can
// be asked to remove only what has not begun to run since.
func (c *checker) unheeded(i *instance) bool { return c.agentBetween(i.called, i.started) }

// exits: by the time that an instance is published, as running or ended, how the one
// before it ended has been published, too, unless that was unheeded. A status has room
// for no more than one end before the present instance, so that one that nobody looked
// at in time leaves no trace of its predecessor.
func (c *checker) exits() {
	reports := c.reports()
	last := make(map[string]*instance)
	for _, i := range c.instances {
		key := string(i.uid) + "/" + i.name
		before := last[key]
		last[key] = i
		if before == nil || before.recordsLost || reports[before.id] != nil {
			continue
		}
		if c.lifeOf(i.uid, before.started) != c.lifeOf(i.uid, i.began()) || !c.published(i) || c.unheeded(before) {
			continue
		}
		c.violate(before.exited, "the end of %s (%s, %s) was never published, and %s was started after it", before.id, key, before.detail, i.id)
	}
}

// published: the instance was published, in a state beside which there is the end of
// the one before.
func (c *checker) published(i *instance) bool {
	for _, s := range c.h.Statuses {
		if s.Pod.UID != i.uid || s.At < i.started {
			continue
		}
		status := containerStatus(&s.Status, i.name)
		if status == nil || status.State.Waiting != nil {
			continue
		}
		if _, id, _ := strings.Cut(status.ContainerID, "://"); id == i.id {
			return true
		}
	}
	return false
}
