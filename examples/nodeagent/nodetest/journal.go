// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime/fake"
)

type entry struct {
	at   time.Duration
	text string
}

// Journal returns the history for people: a line per event, with the virtual time since the begin
// of the node. Successful reads of agents are omitted.
func (h History) Journal() string {
	var all []entry
	add := func(at time.Duration, format string, args ...any) {
		all = append(all, entry{at, fmt.Sprintf(format, args...)})
	}
	for _, m := range h.Marks {
		if m.Kind == MarkRemark {
			add(m.At, "%s", m.Text)
		} else {
			add(m.At, "--- %s", m.Kind)
		}
	}
	for _, e := range h.Calls {
		look := e.Op == fake.OpList || e.Op == fake.OpPodStatus || e.Op == fake.OpWatch || e.Op == fake.OpExec
		if !look || e.Err != nil {
			add(e.At, "  %s%s", e.What(), took(e.Took))
		}
	}
	for _, v := range h.Volumes {
		add(v.At, "  %s/%s: %s", v.UID, v.Volume, v.What)
	}
	for _, i := range h.Images {
		add(i.At, "  %s: %s", i.Image, i.What)
	}
	for _, m := range h.Mirrors {
		add(m.At, "  %s: %s", m.Name, m.What)
	}
	for _, t := range h.Told {
		add(t.At, "  source %s: %s", t.Source, podList(t.Pods))
	}
	for _, s := range h.Statuses {
		add(s.At, "  status of %s", statusLine(s))
	}
	for _, r := range h.Requests {
		add(r.At, "  API:%s", strings.TrimLeft(r.String()[min(10, len(r.String())):], " "))
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%11.3fs %s\n", e.at.Seconds(), e.text)
	}
	return b.String()
}

func took(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%v)", d)
}

func podList(pods []*v1.Pod) string {
	if len(pods) == 0 {
		return "no pods"
	}
	names := make([]string, 0, len(pods))
	for _, p := range pods {
		name := p.Name + "@" + string(p.UID)
		if p.DeletionTimestamp != nil {
			name += " (deleted)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func statusLine(s Published) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s@%s: %s", s.Pod.Name, s.Pod.UID, s.Status.Phase)
	if s.Status.Reason != "" {
		b.WriteString(" (" + s.Status.Reason + ")")
	}
	for _, list := range [][]v1.ContainerStatus{s.Status.InitContainerStatuses, s.Status.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			fmt.Fprintf(&b, ", %s ", c.Name)
			switch {
			case c.State.Running != nil:
				b.WriteString("runs")
			case c.State.Terminated != nil:
				fmt.Fprintf(&b, "ended with %d", c.State.Terminated.ExitCode)
			case c.State.Waiting != nil:
				b.WriteString("waits: " + c.State.Waiting.Reason)
			}
			if c.RestartCount > 0 {
				fmt.Fprintf(&b, " ×%d", c.RestartCount)
			}
		}
	}
	return b.String()
}

// journal returns the history of the player's node.
func (p *player) journal() string { return p.node.History().Journal() }
