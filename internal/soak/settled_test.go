// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// view is the visible state of the node at about one time.
type view struct {
	sample
	sandboxes  []*cri.PodSandbox
	containers []*cri.Container
	processes  map[process][]int // their IDs
	version    int               // of the ConfigMap
}

// process is a running witness according to its arguments.
type process struct {
	pod        string
	generation int
	container  string
}

// unsettled returns the parts of a view that violate the settled state, after faults have stopped
// and enough time has passed. An empty result means that every wanted pod runs, that no other pod
// runs, and that all ends and starts were reported.
func (l *ledger) unsettled(v *view) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.doubts {
		wrong = append(wrong, "in doubt: "+r.String())
	}
	for _, name := range l.names() {
		b := l.pods[name]
		var shown []*v1.Pod
		for i := range v.pods {
			if nameOf(&v.pods[i]) == name {
				shown = append(shown, &v.pods[i])
			}
		}
		for _, text := range b.unsettled(v, shown) {
			wrong = append(wrong, name+": "+text)
		}
	}
	return wrong
}

func (b *podBook) unsettled(v *view, shown []*v1.Pod) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	latest := b.latest()
	if !b.wanted {
		latest = &generation{}
	}
	for p, pids := range v.processes {
		if p.pod == b.name && p.generation != latest.number {
			say("processes %v of generation %d run", pids, p.generation)
		}
	}
	if !b.wanted {
		if len(shown) > 0 {
			say("is removed, and on /pods")
		}
		if n := b.sandboxes(v, ""); n > 0 {
			say("is removed, and has %d sandboxes", n)
		}
		return wrong
	}
	if len(shown) != 1 || shown[0].Labels[labelGeneration] != strconv.Itoa(latest.number) {
		say("/pods shows %d of that name, wanted is generation %d", len(shown), latest.number)
		return wrong
	}
	return append(wrong, latest.unsettled(v, b, shown[0])...)
}

// sandboxes counts the ready sandboxes of the pod with the UID. With an empty UID it counts the
// sandboxes of all UIDs, ready or not.
func (b *podBook) sandboxes(v *view, uid string) (n int) {
	for _, s := range v.sandboxes {
		ready := s.GetState() == cri.PodSandboxState_SANDBOX_READY
		if strings.TrimSuffix(s.GetMetadata().GetName(), "-"+nodeName) == b.name && (uid == "" || ready && s.GetMetadata().GetUid() == uid) {
			n++
		}
	}
	return n
}

func (g *generation) unsettled(v *view, b *podBook, pod *v1.Pod) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("generation %d: %s", g.number, fmt.Sprintf(format, args...)))
	}
	over := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	want := 1
	if over {
		want = 0
	}
	if n := b.sandboxes(v, string(pod.UID)); n != want {
		say("is %s, and has %d sandboxes that are ready", pod.Status.Phase, n)
	}
	for _, name := range lasting(g.pod) {
		if n := len(v.processes[process{b.name, g.number, name}]); n != want {
			say("is %s, and has %d processes of %s", pod.Status.Phase, n, name)
		}
	}
	switch {
	case over && !g.shape.finite || !over && g.shape.ends:
		say("a %s that is %s: %s %s", g.shape.name, pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	case over:
	case pod.Status.Phase != v1.PodRunning || !isReady(pod):
		say("is %s, and not ready: %s", pod.Status.Phase, summary(pod))
	default:
		for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range list {
				wrong = append(wrong, g.untold(v, &list[i])...)
			}
		}
	}
	return wrong
}

// untold returns the starts and ends that are missing in the status of a running container.
func (g *generation) untold(v *view, st *v1.ContainerStatus) (wrong []string) {
	c := g.of(st.Name)
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("generation %d, %s: %s", g.number, st.Name, fmt.Sprintf(format, args...)))
	}
	if !slices.Contains(lasting(g.pod), st.Name) || len(c.starts) == 0 {
		return nil
	}
	last := c.starts[len(c.starts)-1]
	if last.version != v.version {
		say("%s has version %d of the ConfigMap, not %d", last.start.Instance, last.version, v.version)
	}
	if g.bounced {
		return wrong
	}
	if int(st.RestartCount) < len(c.starts)-1 {
		say("restart count %d after %d starts", st.RestartCount, len(c.starts))
	}
	if int(st.RestartCount) > len(c.starts)-1 || len(c.starts) < 2 {
		return wrong // an instance was killed before its start record
	}
	previous, told := c.starts[len(c.starts)-2].start.Instance, st.LastTerminationState.Terminated
	if told == nil && last.start.Text == "sidecar" && c.told(previous) {
		// With a new sandbox the records of init containers are removed. An agent started
		// afterwards does not know their ends; its predecessor has reported the ends.
		return wrong
	}
	if told == nil {
		say("the end of %s is not told", previous)
	} else if got := instanceOf(told.Message); got != previous {
		say("the last end told is that of %q, not of %s", got, previous)
	}
	return wrong
}

// told reports whether the end of an instance was ever said.
func (c *containers) told(instance string) bool {
	for _, t := range c.ended {
		if instanceOf(t.Message) == instance {
			return true
		}
	}
	return false
}

// silent counts the restarts of instances without a start record. Some instances are killed before
// their first record; if all were, the count is wrong.
func (l *ledger) silent() (n, starts int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.pods {
		for _, g := range b.generations {
			for _, c := range g.containers {
				starts += len(c.starts)
				n += max(0, int(c.restarts)-max(0, len(c.starts)-1))
			}
		}
	}
	return n, starts
}

func isReady(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// summary returns a pod's status in one line.
func summary(pod *v1.Pod) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s/%s %s", nameOf(pod), pod.Labels[labelGeneration], pod.Status.Phase)
	if isReady(pod) {
		out.WriteString(" ready")
	}
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			fmt.Fprintf(&out, " %s:", c.Name)
			switch {
			case c.State.Running != nil:
				fmt.Fprintf(&out, "running(%s)", short(c.ContainerID))
			case c.State.Terminated != nil:
				fmt.Fprintf(&out, "ended(%s,%d)", short(c.ContainerID), c.State.Terminated.ExitCode)
			case c.State.Waiting != nil:
				fmt.Fprintf(&out, "waiting(%s)", c.State.Waiting.Reason)
			}
			if c.RestartCount > 0 {
				fmt.Fprintf(&out, "×%d", c.RestartCount)
			}
		}
	}
	return out.String()
}

// nextTry returns the latest end of a crash loop back-off, or zero.
func nextTry(pods []v1.Pod) (latest time.Time) {
	for i := range pods {
		st := &pods[i].Status
		for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
			if c.State.Waiting == nil {
				continue
			}
			_, text, _ := strings.Cut(c.State.Waiting.Message, "next try at ")
			if at, err := time.Parse(time.RFC3339, text); err == nil && at.After(latest) {
				latest = at
			}
		}
	}
	return latest
}
