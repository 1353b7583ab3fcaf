// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime/fake"
)

// counting is a time in which a container's restarts are counted on.
type counting struct {
	lifeKey
	container string
	agents    int // that began since the count was forgotten
}

// counts: a restart count never goes back within a life, and no two instances
// that ran have the same.
func (c *checker) counts() {
	highest := make(map[counting]int32)
	counted := make(map[counting]map[int32]string)
	for _, s := range c.h.Statuses {
		for _, list := range [][]v1.ContainerStatus{s.Status.InitContainerStatuses, s.Status.ContainerStatuses} {
			for i := range list {
				status := &list[i]
				_, id, _ := strings.Cut(status.ContainerID, "://")
				// One that the runtime lost track of is published as ended, and counted.
				instance := c.byID[id]
				if instance == nil || instance.recordsLost || c.betweenLives(instance) {
					continue
				}
				forgotten := c.countForgotten(s.Pod.UID, status.Name, s.At)
				if forgotten >= 0 && c.agentBetween(s.At, s.At) {
					continue // it may be that of the one before that agent, or its own
				}
				at := counting{c.lifeOf(s.Pod.UID, max(instance.called, 0)), status.Name, c.agentsSince(forgotten, s.At)}
				if status.RestartCount < highest[at] {
					c.violate(s.At, "restart count of %s/%s goes from %d to %d", s.Pod.UID, status.Name, highest[at], status.RestartCount)
				}
				highest[at] = status.RestartCount
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

// betweenLives: the instance was asked for in the moment in which the agent was told
// that the pod begins another life, so that it may be of either.
func (c *checker) betweenLives(i *instance) bool {
	s, n := c.spanAt(i.uid, i.called)
	return n > 0 && s.from == i.called
}

// countForgotten is when first, before until, the newest record of a container went, or what
// it says became less than what had been published: from then on only the agent of
// that time, and an API server, know the count. That is so
//
//   - where somebody removes all records, or the runtime loses track of an instance,
//     which is published as ended and its restart counted before it is made, as by the
//     kubelet;
//   - where the records of init containers are removed for a new sandbox, as by the
//     kubelet, until the agent that did it makes the next instance.
//
// It is negative if nothing was forgotten.
func (c *checker) countForgotten(uid types.UID, container string, until time.Duration) time.Duration {
	var newest string
	forgotten, removed := time.Duration(-1), time.Duration(-1)
	for _, e := range c.h.Calls {
		switch {
		case e.UID != uid || e.Container != container || e.At > until:
		case e.Op == fake.OpCreateContainer && e.Done || e.Op == fake.OpReplaced:
			if forgotten < 0 && c.agentsSince(removed, e.At) > 0 {
				forgotten = removed
			}
			newest, removed = e.ID, -1
		case e.Op == fake.OpRemoveContainer && e.Done && e.ID == newest:
			removed = e.At
		case forgotten < 0 && (e.Op == fake.OpLostRecords || e.Op == fake.OpLostTrack):
			forgotten = e.At
		}
	}
	if forgotten < 0 {
		return removed
	}
	return forgotten
}

// agentsSince is how many agents began after a time, until another; 0 if that is
// negative.
func (c *checker) agentsSince(from, until time.Duration) (n int) {
	for _, m := range c.h.Marks {
		if from >= 0 && m.Kind == MarkAgentStarted && m.At >= from && m.At <= until {
			n++
		}
	}
	return n
}
