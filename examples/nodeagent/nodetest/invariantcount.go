// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
)

// counting identifies a sequence of restart counts of a container within a life of its pod.
type counting struct {
	lifeKey
	container string
	agent     int // index of the agent, if each agent counts by itself
}

// tally is the last published restart count of a container.
type tally struct {
	count    int32
	instance *instance
	at       time.Duration
}

// counts checks that a restart count never decreases within a life, and no two instances that ran
// have the same count.
func (c *checker) counts() {
	last := make(map[counting]tally)
	counted := make(map[counting]map[int32]string)
	for _, s := range c.h.Statuses {
		for _, list := range [][]v1.ContainerStatus{s.Status.InitContainerStatuses, s.Status.ContainerStatuses} {
			for i := range list {
				status := &list[i]
				_, id, _ := strings.Cut(status.ContainerID, "://")
				// An unheeded instance that was removed at its start passes its number on to the
				// next.
				instance := c.byID[id]
				if instance == nil || c.unheeded(instance) || c.isOfLifeBefore(instance) {
					continue
				}
				at := counting{c.lifeOf(s.Pod.UID, instance.began()), status.Name, c.counter(s.Pod.UID, status.Name, s.At)}
				before := last[at]
				if status.RestartCount < before.count && !c.unheard(before, s) {
					c.violate(s.At, "restart count of %s/%s goes from %d to %d", s.Pod.UID, status.Name, before.count, status.RestartCount)
				}
				last[at] = tally{status.RestartCount, instance, s.At}
				if status.State.Running == nil && status.State.Terminated == nil {
					continue
				}
				if counted[at] == nil {
					counted[at] = make(map[int32]string)
				}
				if other := counted[at][status.RestartCount]; other != "" && other != id {
					c.violate(s.At, "%s and %s of %s/%s are both published with restart count %d", other, id, s.Pod.UID, status.Name, status.RestartCount)
				}
				counted[at][status.RestartCount] = id
			}
		}
	}
}

// isOfLifeBefore reports whether the instance began at the instant at which a source began another
// life of its pod, and was started for the earlier life: it ended or was being stopped at that
// instant, or its sandbox is that of the earlier life.
func (c *checker) isOfLifeBefore(i *instance) bool {
	span, n := c.spanAt(i.uid, i.began())
	if n <= 0 || i.began() != span.from {
		return false
	}
	sandbox := span.from
	for n, e := range c.h.Calls {
		switch {
		case e.Op == fake.OpStopContainer && e.ID == i.id && e.At == span.from:
			return true
		case e.Op == fake.OpRunSandbox && e.UID == i.uid && n < i.entry:
			sandbox = e.At
		}
	}
	return !i.running && i.exited == span.from || sandbox < span.from
}

// unheard reports whether an earlier agent never published the count to the API server, and a fault
// or the agent removed the records with the count. The next agent then reports an earlier instance.
func (c *checker) unheard(before tally, now Published) bool {
	uid := now.Pod.UID
	removed := slices.ContainsFunc(c.h.Calls, func(e fake.Entry) bool { // by a restart of all containers
		return e.Op == fake.OpRemoveContainer && e.ID == before.instance.id && e.At <= now.At
	})
	return (before.instance.recordsLost || removed) && !c.isStatic(uid) && c.agentBetween(before.at, now.At) && !c.patched(uid, before.at, now.At)
}

// patched reports whether the API server accepted a status that was sent in that time.
func (c *checker) patched(uid types.UID, from, to time.Duration) bool {
	for _, r := range c.h.Requests {
		if r.Pod.UID == uid && r.Request == statusmanager.RequestPatch && r.Err == nil && r.At >= from && r.At < to {
			return true
		}
	}
	return false
}

// counter returns the number of the agent whose count of restarts applies at a time, or 0 if all
// agents have the same count. Agents count differently after an instance of a static pod was unheeded
// and removed at its start: an agent that has seen this instance counts it. The next agent has only
// the records of later instances, and does not count it.
func (c *checker) counter(uid types.UID, name string, at time.Duration) (agent int) {
	if !c.isStatic(uid) || !slices.ContainsFunc(c.instances, func(i *instance) bool {
		return i.uid == uid && i.name == name && i.started <= at && c.unheeded(i)
	}) {
		return 0
	}
	for _, m := range c.h.Marks {
		if m.Kind == MarkAgentStarted && m.At <= at {
			agent++
		}
	}
	return agent
}
