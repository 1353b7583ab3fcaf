// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/runtime"
)

// randomGC returns a small node with all kinds of garbage.
func randomGC(r *rand.Rand) runtime.GCInput {
	ages := r.Perm(1000) // distinct, so that "oldest" has one meaning
	next := func() int { age := ages[0]; ages = ages[1:]; return age }
	var lines []string
	for u := range 1 + r.IntN(4) {
		uid := fmt.Sprintf("u%d", u)
		line := uid
		sandboxes := r.IntN(4)
		for s := range sandboxes {
			ready := "-"
			if r.IntN(3) == 0 {
				ready = "+"
			}
			line += fmt.Sprintf(" %s.s%d%s", uid, s, ready)
		}
		n := r.IntN(7)
		mine := make([]int, n)
		for i := range mine {
			mine[i] = next()
		}
		slices.Sort(mine)
		for _, age := range mine {
			state := []string{"running", "exited", "exited", "exited", "exited", "created", "unknown"}[r.IntN(7)]
			line += fmt.Sprintf(" %s=%s@%d/%s.s%d", []string{"a", "b"}[r.IntN(2)], state, age, uid, r.IntN(sandboxes+1))
		}
		lines = append(lines, line)
	}
	fates := make([]runtime.PodFate, 4)
	for i := range fates {
		fates[i] = []runtime.PodFate{runtime.PodLives, runtime.PodLives, runtime.PodOver, runtime.PodGone}[r.IntN(4)]
	}
	in := runtime.GCInput{
		Policy: runtime.GCPolicy{MaxPerPodContainer: r.IntN(6) - 2, MaxContainers: r.IntN(11) - 2, AllUnused: r.IntN(3) == 0},
		Query:  runtime.GCQuery{Fate: func(uid types.UID) runtime.PodFate { return fates[uid[1]-'0'] }},
		Now:    gcNow(),
		Pods:   gcPods(lines...),
	}
	if r.IntN(2) == 0 {
		in.Policy.MinAge = time.Duration(r.IntN(1000)) * time.Minute
	}
	if r.IntN(4) > 0 {
		salt := r.IntN(100)
		in.Query.Reported = func(_ types.UID, id runtime.ContainerID) bool {
			return (len(id.ID)+int(id.ID[len(id.ID)-1])+salt)%3 > 0
		}
	}
	return in
}

// naiveGC is the second implementation: the rules of contract §9 said about one
// instance at a time, from a set that shrinks, with nothing remembered.
type naiveGC struct {
	in   runtime.GCInput
	gone map[string]bool // container IDs and sandbox IDs
}

func (n *naiveGC) pod(c *runtime.ContainerStatus) *runtime.PodStatus {
	for _, p := range n.in.Pods {
		for i := range p.Containers {
			if &p.Containers[i] == c {
				return p
			}
		}
	}
	return nil
}

func (n *naiveGC) whole(p *runtime.PodStatus) bool {
	fate := n.in.Query.Fate(p.UID)
	return fate == runtime.PodGone || fate == runtime.PodOver && n.in.Policy.AllUnused
}

// all is every instance that is still there.
func (n *naiveGC) all() []*runtime.ContainerStatus {
	var out []*runtime.ContainerStatus
	for _, p := range n.in.Pods {
		for i := range p.Containers {
			if !n.gone[p.Containers[i].ID.ID] {
				out = append(out, &p.Containers[i])
			}
		}
	}
	return out
}

func when(c *runtime.ContainerStatus) time.Time {
	if c.State == runtime.StateExited {
		return c.FinishedAt
	}
	return c.CreatedAt
}

// counts: it takes part in the limits.
func (n *naiveGC) counts(c *runtime.ContainerStatus) bool {
	return (c.State == runtime.StateExited || c.State == runtime.StateUnknown) && n.in.Now.Sub(when(c)) >= n.in.Policy.MinAge
}

// newer counts the later instances of c's container, including removed instances, for which yes
// returns true.
func (n *naiveGC) newer(c *runtime.ContainerStatus, yes func(*runtime.ContainerStatus) bool) int {
	k := 0
	for i := range n.pod(c).Containers {
		o := &n.pod(c).Containers[i]
		if o.Name == c.Name && o.CreatedAt.After(c.CreatedAt) && yes(o) {
			k++
		}
	}
	return k
}

func (n *naiveGC) mayGo(c *runtime.ContainerStatus) bool {
	anything := func(*runtime.ContainerStatus) bool { return true }
	ended := func(o *runtime.ContainerStatus) bool {
		return o.State == runtime.StateExited || o.State == runtime.StateUnknown
	}
	p := n.pod(c)
	if c.State == runtime.StateRunning || n.in.Now.Sub(when(c)) < n.in.Policy.MinAge {
		return false
	}
	if n.in.Query.Fate(p.UID) == runtime.PodGone {
		return true
	}
	if n.in.Query.Fate(p.UID) == runtime.PodLives && n.newer(c, anything) == 0 {
		return false
	}
	if c.State == runtime.StateCreated {
		return true
	}
	if n.in.Query.Reported != nil {
		return n.in.Query.Reported(p.UID, c.ID)
	}
	return n.newer(c, ended) > 0
}

func (n *naiveGC) run() map[string]bool {
	n.gone = map[string]bool{}
	there := func(c *runtime.ContainerStatus) bool { return !n.gone[c.ID.ID] && n.counts(c) }
	sweep := func(garbage func(*runtime.ContainerStatus) bool) {
		var drop []string
		for _, c := range n.all() {
			if n.mayGo(c) && garbage(c) {
				drop = append(drop, c.ID.ID)
			}
		}
		for _, id := range drop {
			n.gone[id] = true
		}
	}
	sweep(func(c *runtime.ContainerStatus) bool { return n.whole(n.pod(c)) || c.State == runtime.StateCreated })
	each, inAll := n.in.Policy.MaxPerPodContainer, n.in.Policy.MaxContainers
	if limit, ok := map[int]int{runtime.GCNone: 0, 0: 1, 1: 1, 2: 2, 3: 3}[each]; ok {
		sweep(func(c *runtime.ContainerStatus) bool { return n.counts(c) && n.newer(c, there) >= limit })
	}
	if inAll > 0 || inAll == runtime.GCNone {
		limit := max(inAll, 0)
		left := slices.DeleteFunc(n.all(), func(c *runtime.ContainerStatus) bool { return !n.counts(c) })
		if len(left) > limit {
			groups := map[string]bool{}
			for _, c := range left {
				groups[string(n.pod(c).UID)+"/"+c.Name] = true
			}
			sweep(func(c *runtime.ContainerStatus) bool {
				return n.counts(c) && n.newer(c, there) >= max(1, limit/len(groups))
			})
			for n.dropOldest(limit) {
			}
		}
	}
	n.sandboxes()
	return n.gone
}

// dropOldest removes the oldest instance if there are more than limit.
func (n *naiveGC) dropOldest(limit int) bool {
	var oldest *runtime.ContainerStatus
	total := 0
	for _, c := range n.all() {
		if !n.counts(c) {
			continue
		}
		total++
		if n.mayGo(c) && (oldest == nil || when(c).Before(when(oldest))) {
			oldest = c
		}
	}
	if oldest == nil || total <= limit {
		return false
	}
	n.gone[oldest.ID.ID] = true
	return true
}

func (n *naiveGC) sandboxes() {
	for _, p := range n.in.Pods {
		for i, s := range p.Sandboxes {
			used := slices.ContainsFunc(n.all(), func(c *runtime.ContainerStatus) bool { return c.Sandbox == s.ID })
			if !s.Ready && !used && (i > 0 || n.whole(p)) {
				n.gone[string(s.ID)] = true
			}
		}
	}
}

// applied returns the pods after a successful plan.
func applied(pods []*runtime.PodStatus, gone map[string]bool) []*runtime.PodStatus {
	var out []*runtime.PodStatus
	for _, p := range pods {
		left := *p
		left.Containers = slices.DeleteFunc(slices.Clone(p.Containers), func(c runtime.ContainerStatus) bool { return gone[c.ID.ID] })
		left.Sandboxes = slices.DeleteFunc(slices.Clone(p.Sandboxes), func(s runtime.SandboxStatus) bool { return gone[string(s.ID)] })
		out = append(out, &left)
	}
	return out
}

func TestPlanGCAgreesWithTheNaiveOne(t *testing.T) {
	r := rand.New(rand.NewPCG(2026, 9))
	for i := range casetest.Rounds(4_000) {
		in := randomGC(r)
		plan := runtime.PlanGC(in)
		got := map[string]bool{}
		for _, a := range plan {
			id := a.Container.ID
			if a.Op == runtime.GCRemoveSandbox {
				id = string(a.Sandbox)
			}
			if got[id] {
				t.Fatalf("input %d: %s is removed twice", i, id)
			}
			got[id] = true
		}
		naive := &naiveGC{in: in}
		if want := naive.run(); !maps.Equal(want, got) {
			t.Fatalf("input %d: policy %+v\nnaive %v\n  got %v", i, in.Policy, want, got)
		}
		checkGC(t, in, plan)
		in.Pods = applied(in.Pods, got)
		require.Empty(t, runtime.PlanGC(in), "input %d: what is carried out is not planned again", i)
	}
}

// checkGC checks the invariants of every plan.
func checkGC(t *testing.T, in runtime.GCInput, plan []runtime.GCAction) {
	t.Helper()
	ops := []runtime.GCOp{runtime.GCRemoveContainer, runtime.GCRemoveSandbox}
	require.True(t, slices.IsSortedFunc(plan, func(a, b runtime.GCAction) int { return slices.Index(ops, a.Op) - slices.Index(ops, b.Op) }))
	for _, a := range plan {
		p := in.Pods[slices.IndexFunc(in.Pods, func(p *runtime.PodStatus) bool { return p.UID == a.UID })]
		require.Equal(t, in.Query.Fate(p.UID), a.Fate)
		require.NotEmpty(t, a.Cause)
		if a.Op != runtime.GCRemoveContainer {
			s := p.Sandboxes[slices.IndexFunc(p.Sandboxes, func(s runtime.SandboxStatus) bool { return s.ID == a.Sandbox })]
			require.False(t, s.Ready)
			continue
		}
		c := p.Containers[slices.IndexFunc(p.Containers, func(c runtime.ContainerStatus) bool { return c.ID == a.Container })]
		require.NotEqual(t, runtime.StateRunning, c.State)
		require.Equal(t, c.State == runtime.StateUnknown, a.Stop)
		require.Equal(t, c.Sandbox, a.Sandbox)
		if a.Fate == runtime.PodGone {
			continue
		}
		if a.Fate == runtime.PodLives {
			require.NotEqual(t, p.Latest(c.Name).ID, c.ID, "the newest instance of a pod that lives")
		}
		if in.Query.Reported != nil && c.State == runtime.StateExited {
			require.True(t, in.Query.Reported(p.UID, c.ID), "an exit that was not reported")
		}
	}
}

func TestPlanGCWritesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		in := randomGC(r)
		before := applied(in.Pods, nil)
		require.Equal(t, runtime.PlanGC(in), runtime.PlanGC(in), "the same input, the same plan")
		require.Equal(t, before, in.Pods)
	}
}
