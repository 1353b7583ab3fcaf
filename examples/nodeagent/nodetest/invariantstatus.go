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
	"github.com/keelson-dev/keelson/runtime/podstatus"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Invariants about the statuses that agents published.

// lifeKey identifies a life of a pod under a UID: from the time the pod is wanted until it is not
// wanted, or has another manifest.
type lifeKey struct {
	uid types.UID
	n   int
}

func (c *checker) lifeOf(uid types.UID, at time.Duration) lifeKey {
	_, n := c.spanAt(uid, at)
	return lifeKey{uid, n}
}

// phases checks that a final phase is never followed by another phase. The last status of a life
// may be published after the pod is wanted again. The next life then begins after that status.
func (c *checker) phases() {
	ended, begun := make(map[lifeKey]Published), make(map[lifeKey]bool)
	for _, s := range c.h.Statuses {
		life := c.lifeOf(s.Pod.UID, s.At)
		before, was := ended[life]
		switch {
		case was && s.Status.Phase != before.Status.Phase && life.n > 0 && !begun[life]:
			begun[life] = true
			delete(ended, life)
		case was && s.Status.Phase != before.Status.Phase && !c.forgotten(before, s.At) && !c.declared(s) && !c.refusedAnew(before, s):
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

// hadBegun reports whether a status published at that time is about the present life, not about an
// earlier life.
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

// mayStartAgain reports whether another agent may start a pod again whose end was published.
// Another agent may do so after an agent that stopped its pods at its end, and after a fault has
// removed all records of a container. Only the runtime has a record of the end of a static pod, and
// an API server may not have received the end.
func (c *checker) mayStartAgain(ended Published, at time.Duration) bool {
	reason := ended.Status.Reason
	if (reason == reasonDeadline || slices.Contains(impossibilities, reason)) && c.isStatic(ended.Pod.UID) && c.agentBetween(ended.At, at) {
		// For the next agent the pod began with its oldest sandbox, a moment later. The next agent
		// decides again about a refused static pod, and the pod may have left its source by then.
		return true
	}
	return c.agentBetween(ended.At, at) && (ended.Status.Reason == "Terminated" || c.lostRecords(ended.Pod.UID, at))
}

// forgotten reports whether another agent may publish again that a pod has not ended. Either the
// agent may start the pod again, or the API server did not receive the end before the agent began
// to read from the server. Until the agent has read the runtime's records, or has stopped a deleted
// pod again, the server's status is the newest that the agent knows.
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

// declared reports whether another client has declared the pod failed. The API server received the
// declaration before any other end, and keeps it, as does the next agent.
func (c *checker) declared(s Published) bool {
	return s.Status.Phase == v1.PodFailed && s.Status.Reason == declaredFailed
}

// refusedAnew: another agent may refuse a static pod that has ended. Agents admit pods that run without a
// check of the manifest, and check the manifest of a static pod that does not run, as the kubelet.
func (c *checker) refusedAnew(ended, now Published) bool {
	return slices.Contains(impossibilities, now.Status.Reason) && c.isStatic(now.Pod.UID) && c.agentBetween(ended.At, now.At)
}

// toldLate is the time after which a call for a pod, possibly in progress, considers a submission
// of the pod's source.
const toldLate = 5 * time.Second

// arrived reports whether the API server received the end before that time.
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

// reported has the published exits of instances.
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

// contradicts reports whether the published exit of an instance differs from the real exit. An
// unknown exit, in the kubelet's words, is correct in these cases: the runtime has lost track of
// the instance, even if it still runs; a fault removed the instance or its record; the agent is
// newer than the exit, the API server's status shows the instance running, and its record has been
// removed since, as for older instances; the instance was removed at its start (unheeded), or for a
// restart of all containers that did not come to its end.
func (c *checker) contradicts(id string, t *v1.ContainerStateTerminated, at time.Duration) bool {
	i := c.byID[id]
	switch {
	case i == nil, t.Reason == podstatus.ReasonRestartingAll && !i.running:
		return false
	case t.Reason == podstatus.ReasonStatusUnknown && (i.recordsLost || i.trackLost || c.unheeded(i) || !i.running && c.agentBetween(i.exited, at) || c.removedForRestart(i, at)):
		return false
	}
	return i.running || i.detail != fmt.Sprintf("code %d (%s)", t.ExitCode, t.Reason)
}

// removedForRestart reports whether the agent had removed the record of an instance because a rule
// of the pod restarts all containers.
func (c *checker) removedForRestart(i *instance, at time.Duration) bool {
	return slices.ContainsFunc(c.h.Calls, func(e fake.Entry) bool { return e.Op == fake.OpRemoveContainer && e.ID == i.id && e.At <= at }) &&
		slices.ContainsFunc(c.manifests()[i.uid], func(pod *v1.Pod) bool {
			return slices.ContainsFunc(allContainers(pod), func(own *v1.Container) bool {
				return slices.ContainsFunc(own.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
					return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
				})
			})
		})
}

// unheeded reports whether the agent that requested the start of the instance was gone when the
// start took effect. The next agent may have seen a created instance, and removed it: no runtime
// offers a removal that depends on the state.
func (c *checker) unheeded(i *instance) bool { return c.agentBetween(i.called, i.started) }

// exits checks that the exit of an instance is published before its successor is published as
// running or ended, unless the instance was unheeded. A status has room for a single exit before
// the present instance. An exit that was not read in time therefore leaves no trace of its
// predecessor.
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
		if c.agentBetween(before.exited, i.began()) && c.removedForRestart(before, i.began()) {
			continue // the agent that restarted all containers was gone before its status
		}
		if c.lifeOf(i.uid, before.started) != c.lifeOf(i.uid, i.began()) || !c.published(i) || c.unheeded(before) || c.failedBetween(before, i) {
			continue
		}
		c.violate(before.exited, "the end of %s (%s, %s) was never published, and %s was started after it", before.id, key, before.detail, i.id)
	}
}

// failedBetween reports whether another start of the container failed between two instances, so that its end took
// the place of the earlier instance's end.
func (c *checker) failedBetween(before, next *instance) bool {
	return slices.ContainsFunc(c.h.Calls, func(e fake.Entry) bool {
		return e.Op == fake.OpExited && e.UID == next.uid && e.Container == next.name && strings.Contains(e.Detail, runtime.ReasonStartError) && e.At >= before.exited && e.At <= next.began()
	})
}

// published reports whether the instance was published in a state that shows the exit of its
// predecessor, too.
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
