// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// sample is one answer of the agent's /pods.
type sample struct {
	began, ended time.Time
	pods         []v1.Pod
}

// nameOf is the name in the manifest: static pods have their node's after it.
func nameOf(pod *v1.Pod) string { return strings.TrimSuffix(pod.Name, "-"+nodeName) }

// sampled compares the agent's answer with earlier answers and records of containers.
func (l *ledger) sampled(s sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := make(map[string]bool)
	for i := range s.pods {
		pod := &s.pods[i]
		name := nameOf(pod)
		shown[name] = true
		number, _ := strconv.Atoi(pod.Labels[labelGeneration])
		g := l.book(name).generation(number)
		if g == nil {
			l.violate("/pods shows generation %q of %s, which nobody wrote", pod.Labels[labelGeneration], name)
			continue
		}
		l.sampledPod(s, name, g, &pod.Status)
	}
	l.resolve(s.ended)
	for name, b := range l.pods {
		if !b.wanted && b.gone.IsZero() && !shown[name] && s.began.After(b.changed) {
			b.gone = s.ended
			l.journal.say("%s: gone", name)
		}
	}
}

func (l *ledger) sampledPod(s sample, name string, g *generation, st *v1.PodStatus) {
	what := fmt.Sprintf("%s/%d", name, g.number)
	over := st.Phase == v1.PodSucceeded || st.Phase == v1.PodFailed
	// A restarted agent reports nothing about a pod before its first look at the pod.
	if !g.over.IsZero() && st.Phase != g.phase && st.Phase != "" && !(st.Phase == v1.PodPending && len(st.ContainerStatuses) == 0) && !g.bounced {
		l.violate("%s: was %s and is %s", what, g.phase, st.Phase)
	}
	if over && g.over.IsZero() {
		g.over = s.ended
	}
	if g.over.IsZero() || over {
		g.phase = st.Phase
	}
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range list {
			l.sampledContainer(s.ended, what, g, &list[i])
		}
	}
}

func (l *ledger) sampledContainer(at time.Time, pod string, g *generation, st *v1.ContainerStatus) {
	c, what := g.of(st.Name), pod+"/"+st.Name
	for _, t := range []*v1.ContainerStateTerminated{st.LastTerminationState.Terminated, st.State.Terminated} {
		if t != nil && t.ContainerID != "" && !l.outOfSight(at, t) {
			l.reported(what, c, t)
		}
	}
	if g.bounced { // another pod may have had the same UID
		return
	}
	if st.RestartCount < c.restarts && st.ContainerID != "" {
		l.violate("%s: the restart count falls from %d to %d", what, c.restarts, st.RestartCount)
	}
	c.restarts = max(c.restarts, st.RestartCount)
	if id := short(st.ContainerID); id != "" && st.State.Waiting == nil && (len(c.ids) == 0 || c.ids[len(c.ids)-1] != id) {
		if slices.Contains(c.ids, id) {
			l.violate("%s: the container is %s again, after %s", what, id, c.ids[len(c.ids)-1])
		}
		c.ids = append(c.ids, id)
	}
}

// short returns enough of a container's ID to be unique.
func short(id string) string {
	_, id, _ = strings.Cut(id, "://")
	return id[:min(len(id), 12)]
}

// outOfSight reports whether an end is only the unknown state of a container after a kill of
// containerd: containerd 1.6 reports the state until asked to stop the container. The agent reports
// the same state as a kubelet, and the real end when containerd does.
func (l *ledger) outOfSight(at time.Time, t *v1.ContainerStateTerminated) bool {
	if t.Reason != "ContainerStatusUnknown" || !within(l.disturbed, at) && !within(l.disturbed, at.Add(-5*time.Second)) {
		return false
	}
	l.except("a look at a container whose state containerd does not know after its crash")
	return true
}

// reported checks that the end of an instance is reported once, always with the same values, and
// correctly.
func (l *ledger) reported(what string, c *containers, t *v1.ContainerStateTerminated) {
	id := short(t.ContainerID)
	known, ok := c.ended[id]
	if ok && known.ExitCode == t.ExitCode && known.Message == t.Message && known.FinishedAt.Equal(&t.FinishedAt) {
		return
	}
	if ok {
		l.violate("%s: the end of %s was code %d at %s (%q), and is code %d at %s (%q)", what, id,
			known.ExitCode, known.FinishedAt, known.Message, t.ExitCode, t.FinishedAt, t.Message)
		return
	}
	c.ended[id] = *t
	l.journal.say("%s: %s ended with %d (%s), says the agent", what, id, t.ExitCode, t.Message)
	i := l.instances[instanceOf(t.Message)]
	if i == nil { // killed before its first record, or the record is not read yet
		return
	}
	if i.id != "" && i.id != id {
		l.violate("%s: the end of %s is told of %s, and of %s", what, i.start.Instance, i.id, id)
	}
	i.id = id
	if i.ended != nil && i.ended.Code != int(t.ExitCode) {
		l.otherCode(what, i, t)
	}
}

// otherCode records a violation, unless the exit code could not be known: the waiting process was
// killed, or containerd was down and reports 255 or 137.
func (l *ledger) otherCode(what string, i *instance, t *v1.ContainerStateTerminated) {
	if within(l.disturbed, i.ended.At) && (t.ExitCode == 255 || t.ExitCode == 137) {
		l.except("an exit code that was lost with a shim or with containerd")
		return
	}
	l.violate("%s: %s ended with %d at %s, and is said to have ended with %d", what, i.start.Instance,
		i.ended.Code, i.ended.At.Format(timeFormat), t.ExitCode)
}

// instanceOf returns the instance named in its termination message.
func instanceOf(message string) string {
	message = strings.TrimSpace(message)
	return message[max(0, len(message)-10):]
}
