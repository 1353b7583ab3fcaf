// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/sorted"
)

// gcInput is the complete input of planGC, which does not modify it.
type gcInput struct {
	Policy GCPolicy
	Query  GCQuery
	Now    time.Time
	Pods   []*PodStatus // every pod of the runtime, with slices newest first
	Logs   []logFolder  // every folder below Policy.LogRoot
	Links  []logLink    // every broken link in Policy.LinkDir
}

// planGC decides which objects are garbage. The order is that of the kubelet 1.36: ended instances
// of pods to be removed as a whole; ended instances above the limit of their container; ended
// instances above the limit of all containers; empty sandboxes that are not ready, all or all but
// the pod's newest; logs. Within a list the oldest come first, so that an interruption leaves the
// newest. Planned removals count as done. After a failure the next call plans the removal again.
//
// Under every policy, these objects are not garbage:
//
//   - Running instances and ready sandboxes: the pod worker ends them.
//   - The newest instance of a container of a living pod: Plan reads from this record that the
//     container has run, the restart count and the back-off. (After collecting such a record, the
//     kubelet runs a container with policy Never again.)
//   - An instance whose exit was not reported (GCQuery.Reported), unless the pod is gone (#104107).
//
// A created instance that never ran counts towards no limit. It is removed unless it is the newest
// of a container of a living pod.
func planGC(in gcInput) []gcAction {
	p := &gcPlan{in: in, left: make(map[types.UID]*gcPod, len(in.Pods))}
	for _, status := range in.Pods {
		p.read(status)
	}
	for _, g := range p.groups {
		p.dropUnused(g)
	}
	if limit := in.Policy.perContainer(); limit >= 0 {
		for _, g := range p.groups {
			p.dropBeyond(g, limit, fmt.Sprintf("more than %d ended instances of the container", limit))
		}
	}
	p.dropAboveTotal()
	p.dropSandboxes()
	p.dropLogs()
	p.dropLinks()
	return p.actions
}

// gcPlan is a plan under construction.
type gcPlan struct {
	in      gcInput
	left    map[types.UID]*gcPod // the remaining objects of each pod
	groups  []*gcGroup
	actions []gcAction
}

// gcPod is a pod with the objects that the plan leaves.
type gcPod struct {
	status    *PodStatus
	fate      PodFate
	inSandbox map[SandboxID]int        // containers, in any state
	counts    map[string]map[int32]int // instances by container name and restart count
	sandboxes int
}

func (p *gcPod) empty() bool { return len(p.counts) == 0 && p.sandboxes == 0 }

// gcGroup has the removable instances of a container, newest first.
type gcGroup struct {
	pod  *gcPod
	dead []gcDead
}

type gcDead struct {
	c      *ContainerStatus
	at     time.Time // begin of its age
	needed bool      // stays under all limits
}

// doomed reports whether only needed objects of the pod stay.
func (p *gcPlan) doomed(pod *gcPod) bool {
	return pod.fate == PodGone || pod.fate == PodOver && p.in.Policy.AllUnused
}

func (p *gcPlan) read(status *PodStatus) {
	pod := &gcPod{
		status: status, fate: p.in.Query.fate(status.UID), sandboxes: len(status.Sandboxes),
		inSandbox: make(map[SandboxID]int), counts: make(map[string]map[int32]int),
	}
	p.left[status.UID] = pod
	groups := make(map[string]*gcGroup)
	ended := make(map[string]bool)
	for i := range status.Containers {
		c := &status.Containers[i]
		pod.inSandbox[c.Sandbox]++
		g := groups[c.Name]
		if g == nil {
			g = &gcGroup{pod: pod}
			groups[c.Name] = g
			p.groups = append(p.groups, g)
			pod.counts[c.Name] = make(map[int32]int)
		}
		pod.counts[c.Name][c.RestartCount]++
		if c.State == StateRunning {
			continue
		}
		needed := p.needed(pod, c, c == status.Latest(c.Name), !ended[c.Name])
		ended[c.Name] = ended[c.Name] || c.State != StateCreated
		if at := endOf(c); p.in.Policy.MinAge <= 0 || !at.After(p.in.Now.Add(-p.in.Policy.MinAge)) {
			g.dead = append(g.dead, gcDead{c: c, at: at, needed: needed})
		}
	}
}

// endOf returns the end of c, or its creation if the end is unknown.
func endOf(c *ContainerStatus) time.Time {
	if c.State == StateExited && !c.FinishedAt.IsZero() {
		return c.FinishedAt
	}
	return c.CreatedAt
}

// needed reports whether c, which does not run, must stay. newest: c is the newest instance of its
// container. newestEnded: c is the newest ended instance.
func (p *gcPlan) needed(pod *gcPod, c *ContainerStatus, newest, newestEnded bool) bool {
	switch {
	case pod.fate == PodGone:
		return false
	case pod.fate == PodLives && newest:
		return true
	case c.State == StateCreated:
		return false
	case p.in.Query.Reported == nil:
		return newestEnded
	default:
		return !p.in.Query.Reported(pod.status.UID, c.ID)
	}
}

// drop plans the removal of g.dead[i].
func (p *gcPlan) drop(g *gcGroup, i int, cause string) {
	c := g.dead[i].c
	g.dead = slices.Delete(g.dead, i, i+1)
	g.pod.inSandbox[c.Sandbox]--
	if g.pod.counts[c.Name][c.RestartCount]--; g.pod.counts[c.Name][c.RestartCount] == 0 {
		delete(g.pod.counts[c.Name], c.RestartCount)
	}
	if len(g.pod.counts[c.Name]) == 0 {
		delete(g.pod.counts, c.Name)
	}
	p.actions = append(p.actions, gcAction{
		Op: gcRemoveContainer, UID: g.pod.status.UID, Fate: g.pod.fate, Name: c.Name, Container: c.ID,
		Stop: c.State == StateUnknown, Sandbox: c.Sandbox, Cause: cause,
	})
}

// dropUnused removes all instances of a pod to be removed as a whole, and instances that never ran.
func (p *gcPlan) dropUnused(g *gcGroup) {
	for i, d := range slices.Backward(g.dead) {
		switch {
		case d.needed:
		case p.doomed(g.pod):
			p.drop(g, i, "the pod is "+g.pod.fate.String())
		case d.c.State == StateCreated:
			p.drop(g, i, "it never ran and is not wanted any more")
		}
	}
}

// dropBeyond keeps the newest ended instances, up to limit, and the needed older instances.
func (p *gcPlan) dropBeyond(g *gcGroup, limit int, cause string) {
	n := g.ended()
	for i, d := range slices.Backward(g.dead) {
		if d.c.State == StateCreated {
			continue
		}
		if n > limit && !d.needed {
			p.drop(g, i, cause)
		}
		n--
	}
}

// ended returns the number of remaining instances that have run.
func (g *gcGroup) ended() int {
	n := 0
	for i := range g.dead {
		if g.dead[i].c.State != StateCreated {
			n++
		}
	}
	return n
}

// dropAboveTotal reduces the number of all ended instances to the limit: first with an equal share
// for each container, then by age alone.
func (p *gcPlan) dropAboveTotal() {
	limit := p.in.Policy.total()
	total, groups := 0, 0
	for _, g := range p.groups {
		if n := g.ended(); n > 0 {
			total, groups = total+n, groups+1
		}
	}
	if limit < 0 || total <= limit {
		return
	}
	cause := fmt.Sprintf("more than %d ended containers in all", limit)
	type place struct {
		g    *gcGroup
		dead gcDead
	}
	var all []place // the oldest of each container first
	total = 0
	for _, g := range p.groups {
		p.dropBeyond(g, max(1, limit/groups), cause)
		total += g.ended()
		for _, d := range slices.Backward(g.dead) {
			if d.c.State != StateCreated && !d.needed {
				all = append(all, place{g, d})
			}
		}
	}
	sorted.Stable(all, func(a, b place) int { return a.dead.at.Compare(b.dead.at) })
	for _, oldest := range all {
		if total <= limit {
			return
		}
		i := slices.IndexFunc(oldest.g.dead, func(d gcDead) bool { return d.c == oldest.dead.c })
		p.drop(oldest.g, i, cause)
		total--
	}
}

// dropSandboxes removes sandboxes that are not ready and have no containers. The newest sandbox of
// a pod stays until the pod is removed as a whole: Plan needs its attempt number, and the pod's status
// needs its addresses.
func (p *gcPlan) dropSandboxes() {
	for _, status := range p.in.Pods {
		pod := p.left[status.UID]
		for i, s := range slices.Backward(status.Sandboxes) {
			cause := "a newer sandbox has taken its place"
			if p.doomed(pod) {
				cause = "the pod is " + pod.fate.String()
			} else if i == 0 {
				continue
			}
			if s.Ready || pod.inSandbox[s.ID] > 0 {
				continue
			}
			pod.sandboxes--
			p.actions = append(p.actions, gcAction{Op: gcRemoveSandbox, UID: status.UID, Fate: pod.fate, Sandbox: s.ID, Cause: cause})
		}
	}
}
