// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// planSeed repeats a run that failed: go test ./runtime -run TestPlanProperty -plan-seed 123
var planSeed = flag.Uint64("plan-seed", 0, "seed of TestPlanProperty; 0 takes a new one")

const (
	randomPods = 100_000
	planShards = 4
)

// TestPlanProperty checks the invariants of Plan on random pods and observations: each plan keeps
// the rules and agrees with naivePlan, and carrying out the plans settles in a bounded number of
// steps.
func TestPlanProperty(t *testing.T) {
	seed := *planSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -plan-seed %d", seed)
	var shards sync.WaitGroup
	for shard := range uint64(planShards) {
		shards.Go(func() {
			d := dice{rand.New(rand.NewPCG(seed, shard))}
			for n := range casetest.Rounds(randomPods / planShards) {
				r := randomRun{probes: d.verdicts(), pod: d.pod(), finished: d.finished()}
				status := d.status(r.pod)
				if n%4 == 0 { // these cost twice as much
					d.resize(&r, status)
				}
				if err := r.check(status, n%64 == 0); err != nil {
					t.Errorf("shard %d, pod %d: %v\n%s\nfirst seen: %s\nlast seen: %s%s", shard, n, err, describePod(r.pod),
						describe(status, r.probes), describe(r.model.status, r.probes), r.model.ledger.describe(r.model.status))
					return
				}
			}
		})
	}
	shards.Wait()
}

// randomRun is a random pod until it settles.
type randomRun struct {
	pod      *v1.Pod
	probes   *verdictsByID
	finished string // containers that are known to have run for good
	model    model
}

// check follows the pod from its first observation to the end. Whether a plan is
// repeatable and leaves its input alone is looked at where thorough is set,
// since it costs more than all the rest.
func (r *randomRun) check(status *runtime.PodStatus, thorough bool) error {
	r.model.pod, r.model.status = r.pod, copyOf(status)
	if status == nil {
		r.model.status = &runtime.PodStatus{UID: r.pod.UID}
	}
	if thorough {
		if err := r.isPure(status); err != nil {
			return err
		}
	}
	// Each init container takes a round. A regular container that is killed in
	// the last may cost the pod its sandbox, and so take init through once more.
	for range 2*len(r.pod.Spec.InitContainers) + 2 {
		if err := r.settle(); err != nil {
			return err
		}
		if r.pod.DeletionTimestamp != nil || !r.model.pass() {
			return r.atRest()
		}
	}
	return errors.New("init goes on and on")
}

func (r *randomRun) input() runtime.PlanInput {
	in := runtime.PlanInput{
		Pod: r.pod, Status: r.model.status, Probes: r.probes,
		Finished: func(name string, _ *runtime.ContainerStatus) bool { return strings.Contains(r.finished, name) },
	}
	if r.model.ledger != nil {
		in.Actuated = r.model.actuated
	}
	return in
}

// isPure plans twice for the input as it was observed, nil if nothing was.
func (r *randomRun) isPure(status *runtime.PodStatus) error {
	in := r.input()
	in.Status = status
	pod, before := r.pod.DeepCopy(), copyOf(status)
	first, second := runtime.Plan(in), runtime.Plan(in)
	if !reflect.DeepEqual(first, second) {
		return fmt.Errorf("two plans for one input:\n%s\n%s", first.String(), second.String())
	}
	if !reflect.DeepEqual(pod, r.pod) || !reflect.DeepEqual(before, status) {
		return fmt.Errorf("the input was written to by:\n%s", first.String())
	}
	return nil
}

func copyOf(st *runtime.PodStatus) *runtime.PodStatus {
	if st == nil {
		return nil
	}
	out := *st
	out.Sandboxes, out.Containers = slices.Clone(st.Sandboxes), slices.Clone(st.Containers)
	for i := range out.Sandboxes {
		out.Sandboxes[i].IPs = slices.Clone(out.Sandboxes[i].IPs)
	}
	return &out
}

// settle plans and acts, with no time passing, until there is nothing to do.
func (r *randomRun) settle() error {
	limit := 2*len(r.pod.Spec.InitContainers) + 6 // init containers go one after the other, twice if all are restarted
	for step := range limit {
		in := r.input()
		plan := runtime.Plan(in)
		if err := r.keepsRules(in, plan); err != nil {
			return fmt.Errorf("%w in\n%s", err, plan.String())
		}
		if step == 0 { // the later ones are much the same, and it costs more than Plan
			if err := agrees(plan, naivePlan(in)); err != nil {
				return fmt.Errorf("%w in\n%s", err, plan.String())
			}
		}
		if plan.Empty() {
			return nil
		}
		r.model.apply(plan)
	}
	last := runtime.Plan(r.input())
	return fmt.Errorf("not at rest after %d steps, next is\n%s", limit, last.String())
}

// keepsRules checks the rules for a single plan.
func (r *randomRun) keepsRules(in runtime.PlanInput, plan runtime.Actions) error {
	if r.pod.DeletionTimestamp != nil && !plan.Empty() {
		return fmt.Errorf("a deleted pod is touched")
	}
	if plan.KillPod && len(plan.Kill) > 0 || plan.KillPod && !plan.CreateSandbox && len(plan.Start) > 0 {
		return fmt.Errorf("single actions in a pod that is killed")
	}
	if plan.CreateSandbox && !plan.KillPod || (plan.KillPod && plan.Cause == "") {
		return fmt.Errorf("the old sandbox or the cause is forgotten")
	}
	killed := map[runtime.ContainerID]bool{}
	for _, k := range plan.Kill {
		if killed[k.ID] || k.Message == "" || k.Reason == "" {
			return fmt.Errorf("%s is killed twice or for no reason", k.Name)
		}
		killed[k.ID] = true
	}
	if err := r.keepsResizeRules(plan); err != nil {
		return err
	}
	if !slices.IsSortedFunc(plan.Start, byPlace) {
		return fmt.Errorf("starts are out of order, or there are two of one container")
	}
	initialized := !plan.CreateSandbox && r.model.initialized(r.probes) || len(r.pod.Spec.InitContainers) == 0
	for _, s := range plan.Start {
		if s.Cause == "" || s.Name != s.Ref.Container(r.pod).Name {
			return fmt.Errorf("start of %s has no cause", s.Name)
		}
		if s.Ref.Group == runtime.GroupRegular && !initialized {
			return fmt.Errorf("%s is started before init is complete", s.Name)
		}
		if down := r.downAhead(s.Ref, killed); down != "" && !plan.CreateSandbox {
			return fmt.Errorf("%s is started while sidecar %s ahead of it is not up", s.Name, down)
		}
		for _, old := range in.Status.Running() {
			if old.Name == s.Name && !plan.KillPod && !killed[old.ID] {
				return fmt.Errorf("%s is started beside itself", s.Name)
			}
		}
	}
	return nil
}

// downAhead returns a sidecar ahead of ref that does not run in the current sandbox, has not passed
// its startup probe, or is being killed; otherwise "".
func (r *randomRun) downAhead(ref runtime.Ref, killed map[runtime.ContainerID]bool) string {
	for i := range r.pod.Spec.InitContainers {
		c := &r.pod.Spec.InitContainers[i]
		st := r.model.status.Active(c.Name)
		behind := ref.Group == runtime.GroupRegular || ref.Group == runtime.GroupInit && i < ref.Index
		if behind && podfacts.IsSidecar(c) && (st == nil || st.State != runtime.StateRunning || killed[st.ID] || !up(c, st, r.probes)) {
			return c.Name
		}
	}
	return ""
}

// byPlace sorts as Actions.Start is; equal places count as out of order.
func byPlace(a, b runtime.Start) int {
	rank := map[runtime.Group]int{runtime.GroupInit: 0, runtime.GroupRegular: 1, runtime.GroupEphemeral: 2}
	if c := cmp.Or(cmp.Compare(rank[a.Ref.Group], rank[b.Ref.Group]), cmp.Compare(a.Ref.Index, b.Ref.Index)); c != 0 {
		return c
	}
	return -1 // for IsSortedFunc, which asks whether b comes before a
}

func agrees(plan runtime.Actions, want naiveActions) error {
	got := naiveActions{killPod: plan.KillPod, createSandbox: plan.CreateSandbox}
	for _, k := range plan.Kill {
		got.kill = append(got.kill, k.ID)
	}
	for _, s := range plan.Start {
		got.start = append(got.start, s.Ref)
	}
	var resized, wanted []naiveResize
	for _, step := range plan.Resize {
		resized = append(resized, naiveResize{id: step.ID, name: step.Resource})
	}
	for _, step := range inOrder(want.resize) {
		wanted = append(wanted, naiveResize{id: step.id, name: step.name})
	}
	if !slices.Equal(resized, wanted) {
		return fmt.Errorf("the tables say %+v", want)
	}
	if got.killPod != want.killPod || got.createSandbox != want.createSandbox ||
		!slices.Equal(got.kill, want.kill) || !slices.Equal(got.start, want.start) {
		return fmt.Errorf("the tables say %+v", want)
	}
	return nil
}

// atRest checks the final state of a pod on a node without failures: stopped, or with all wanted
// containers up. A pod that is being deleted stays unchanged.
func (r *randomRun) atRest() error {
	if r.pod.DeletionTimestamp != nil || r.model.over() {
		return nil
	}
	if runtime.CheckSandbox(r.pod, r.model.status).Changed {
		return fmt.Errorf("at rest without its sandbox")
	}
	if !r.model.initialized(r.probes) {
		for i := range r.pod.Spec.InitContainers {
			c := &r.pod.Spec.InitContainers[i]
			if st := r.model.status.Active(c.Name); st != nil && st.State == runtime.StateRunning && !up(c, st, r.probes) {
				return nil // it waits for this one
			}
		}
		return fmt.Errorf("at rest before it is initialized")
	}
	for i := range r.pod.Spec.InitContainers {
		c := &r.pod.Spec.InitContainers[i]
		st := r.model.status.Active(c.Name)
		if podfacts.IsSidecar(c) && (st == nil || st.State != runtime.StateRunning) {
			return fmt.Errorf("at rest with sidecar %s down", c.Name)
		}
		if podfacts.IsSidecar(c) && !up(c, st, r.probes) {
			return nil // containers behind it wait
		}
	}
	if err := r.resizedAtRest(); err != nil {
		return err
	}
	for i := range r.pod.Spec.Containers {
		c := &r.pod.Spec.Containers[i]
		st := r.model.status.Latest(c.Name)
		ran := st != nil && st.State != runtime.StateCreated
		if runtime.ShouldRestart(r.pod, c, st) && (ran || !strings.Contains(r.finished, c.Name)) {
			return fmt.Errorf("at rest with %s down", c.Name)
		}
	}
	return nil
}

// up reports whether init container c, which runs, lets init go on.
func up(c *v1.Container, st *runtime.ContainerStatus, probes runtime.Probes) bool {
	return podfacts.IsSidecar(c) && (c.StartupProbe == nil || verdictOf(probes.Started(st.ID.String())) == success)
}

// TestRandomPodsAreVaried checks TestPlanProperty: its pods must reach every kind of plan often
// enough to reveal a fault.
func TestRandomPodsAreVaried(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 2))}
	seen := map[string]int{}
	for range 8_000 {
		r := randomRun{probes: d.verdicts(), pod: d.pod()}
		r.model = model{pod: r.pod, status: d.status(r.pod)}
		d.resize(&r, r.model.status)
		plan := runtime.Plan(r.input())
		seen["empty"] += one(plan.Empty())
		seen["sandbox"] += one(plan.CreateSandbox)
		seen["kill pod"] += one(plan.KillPod && !plan.CreateSandbox)
		for _, k := range plan.Kill {
			seen["kill "+string(k.Reason)]++
		}
		for _, s := range plan.Start {
			seen["start "+s.Ref.Group.String()]++
		}
		for _, step := range plan.Resize {
			seen["resize "+string(step.Resource)+" of "+step.Ref.Group.String()]++
		}
	}
	for _, what := range []string{"empty", "sandbox", "kill pod", "kill SpecChanged", "kill LivenessProbe", "kill StartupProbe",
		"kill Unknown", "kill Superseded", "kill RestartAllContainers", "kill Resize", "resize memory of containers", "resize cpu of containers",
		"resize memory of initContainers", "resize cpu of initContainers", "start containers", "start initContainers", "start ephemeralContainers"} {
		assert.GreaterOrEqual(t, seen[what], 50, what)
	}
	require.Len(t, seen, 17)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
