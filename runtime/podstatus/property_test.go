// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// statusSeed repeats a run that failed: go test ./runtime/podstatus -run TestGenerateProperty -status-seed 123
var statusSeed = flag.Uint64("status-seed", 0, "seed of TestGenerateProperty; 0 takes a new one")

const (
	randomLives  = 3_000 // pods, each observed several times
	observations = 5
	shards       = 4
)

// TestGenerateProperty checks the invariants of statuses on random pods with nearly unrelated
// observations: records vanish, come back, change state and lose their counts.
func TestGenerateProperty(t *testing.T) {
	seed := *statusSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -status-seed %d", seed)
	var running sync.WaitGroup
	for shard := range uint64(shards) {
		running.Go(func() {
			d := dice{rand.New(rand.NewPCG(seed, shard))}
			for n := range casetest.Rounds(randomLives / shards) {
				if err := d.live(); err != nil {
					t.Errorf("shard %d, pod %d: %v", shard, n, err)
					return
				}
			}
		})
	}
	running.Wait()
}

// live observes one pod several times.
func (d dice) live() error {
	in := Input{Pod: d.pod(), Now: noon, HostIPs: []string{"192.168.0.1"}}
	in.Started = func(id runtime.ContainerID) bool { return len(id.ID)%2 == 0 }
	in.Ready = func(id runtime.ContainerID) bool { return id.ID[0]%2 == 0 }
	for range observations {
		in.Now = in.Now.Add(time.Minute)
		d.next(&in)
		var before *v1.Pod
		if d.oneIn(8) {
			before = in.Pod.DeepCopy()
		}
		out := Generate(in)
		if err := check(in, out); err != nil {
			return fmt.Errorf("%w\nstage %d, observed %s", err, in.Stage, instances(in.Observed))
		}
		if before != nil && !reflect.DeepEqual(before, in.Pod) {
			return fmt.Errorf("the pod was written to")
		}
		again := in
		again.Previous, again.Now = &out, in.Now.Add(time.Hour)
		if diff := firstDifference(out, Generate(again)); diff != "" {
			before := "nothing"
			if in.Previous != nil {
				before = brief(in.Previous)
			}
			return fmt.Errorf("no fixpoint: %s\nstage %d, observed %s\nbefore: %s", diff, in.Stage, instances(in.Observed), before)
		}
		in.Previous = &out
		if d.oneIn(4) { // the API server catches up
			in.Pod = in.Pod.DeepCopy()
			in.Pod.Status = *out.DeepCopy()
		}
	}
	return nil
}

// check looks at one status.
func check(in Input, out v1.PodStatus) error {
	for _, group := range []runtime.Group{runtime.GroupInit, runtime.GroupRegular, runtime.GroupEphemeral} {
		list, before := listsOf(&out, in.Previous, group)
		for i := range list {
			s := &list[i]
			if ref, ok := runtime.Find(in.Pod, s.Name); !ok || ref.Group != group {
				return fmt.Errorf("%s has a status among %s", s.Name, group)
			}
			if i > 0 && group != runtime.GroupInit && list[i-1].Name >= s.Name {
				return fmt.Errorf("%s are out of order or double: %s", group, brief(&out))
			}
			if old := find(before, s.Name); old != nil && s.RestartCount < old.RestartCount {
				return fmt.Errorf("%s had %d restarts and now has %d", s.Name, old.RestartCount, s.RestartCount)
			}
			if err := checkOne(s); err != nil {
				return err
			}
		}
		n := 0
		for (runtime.Ref{Group: group, Index: n}).Container(in.Pod) != nil {
			n++
		}
		if len(list) != n {
			return fmt.Errorf("%d of %d %s have a status", len(list), n, group)
		}
	}
	return checkWhole(in, &out)
}

func checkOne(s *v1.ContainerStatus) error {
	states := 0
	for _, set := range []bool{s.State.Waiting != nil, s.State.Running != nil, s.State.Terminated != nil} {
		if set {
			states++
		}
	}
	switch {
	case states != 1:
		return fmt.Errorf("%s is in %d states", s.Name, states)
	case s.LastTerminationState.Waiting != nil, s.LastTerminationState.Running != nil:
		return fmt.Errorf("%s was last terminated as %s", s.Name, showState(s.LastTerminationState))
	case s.Ready && s.State.Running == nil && s.State.Terminated == nil:
		return fmt.Errorf("%s is ready while waiting", s.Name)
	case s.Started != nil && *s.Started && s.State.Running == nil:
		return fmt.Errorf("%s is started but does not run", s.Name)
	case s.State.Terminated != nil && s.State.Terminated.Reason == "":
		return fmt.Errorf("%s is terminated for no reason", s.Name)
	}
	return nil
}

// checkWhole looks at phase and conditions.
func checkWhole(in Input, out *v1.PodStatus) error {
	for _, before := range []*v1.PodStatus{&in.Pod.Status, in.Previous} {
		if before != nil && podfacts.IsTerminal(before.Phase) {
			if before.Phase != out.Phase {
				return fmt.Errorf("the phase was %s and now is %s", before.Phase, out.Phase)
			}
			break
		}
	}
	seen := map[v1.PodConditionType]bool{}
	for _, c := range out.Conditions {
		if seen[c.Type] || c.LastTransitionTime.IsZero() || c.LastTransitionTime.After(in.Now) {
			return fmt.Errorf("condition %+v is double or at no time", c)
		}
		seen[c.Type] = true
	}
	over := podfacts.IsTerminal(out.Phase) || in.Stage != StageSync || in.Pod.DeletionTimestamp != nil
	if seen[v1.PodResizePending] != (in.ResizePending != nil && !over) || seen[v1.PodResizeInProgress] != (in.Resizing.UnderWay && !over) {
		return fmt.Errorf("conditions of resize: %s", brief(out))
	}
	ready := isTrue(out.Conditions, v1.PodReady)
	if ready && (podfacts.IsTerminal(out.Phase) || !isTrue(out.Conditions, v1.ContainersReady)) {
		return fmt.Errorf("ready in phase %s: %s", out.Phase, brief(out))
	}
	if out.Phase == v1.PodRunning && !podfacts.IsTerminal(out.Phase) {
		for i := range out.ContainerStatuses {
			s := &out.ContainerStatuses[i]
			if s.State.Waiting != nil && s.LastTerminationState.Terminated == nil {
				return fmt.Errorf("running though %s never ran: %s", s.Name, brief(out))
			}
		}
	}
	return nil
}

func listsOf(out, previous *v1.PodStatus, group runtime.Group) (now, before []v1.ContainerStatus) {
	if previous == nil {
		previous = &v1.PodStatus{}
	}
	switch group {
	case runtime.GroupInit:
		return out.InitContainerStatuses, previous.InitContainerStatuses
	case runtime.GroupEphemeral:
		return out.EphemeralContainerStatuses, previous.EphemeralContainerStatuses
	default:
		return out.ContainerStatuses, previous.ContainerStatuses
	}
}

func brief(out *v1.PodStatus) string {
	text := string(out.Phase)
	for _, list := range [][]v1.ContainerStatus{out.InitContainerStatuses, out.ContainerStatuses, out.EphemeralContainerStatuses} {
		for i := range list {
			text += fmt.Sprintf("; %s %s", list[i].Name, show(&list[i]))
		}
	}
	for i := range out.Conditions {
		text += fmt.Sprintf("; %s %s %v", out.Conditions[i].Type, showCondition(&out.Conditions[i]), out.Conditions[i].LastTransitionTime)
	}
	return text
}

func instances(st *runtime.PodStatus) string {
	var text string
	if st == nil {
		return "nothing"
	}
	for _, s := range st.Sandboxes {
		text += fmt.Sprintf("sandbox %s %t; ", s.ID, s.Ready)
	}
	for _, c := range st.Containers {
		text += fmt.Sprintf("%s %s %s #%d %d %s @%s; ", c.Name, c.ID.ID, c.State, c.RestartCount, c.ExitCode, c.Reason, c.Sandbox)
	}
	return text
}

type dice struct{ *rand.Rand }

func (d dice) oneIn(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (d dice) pod() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid", Generation: 1}}
	pod.Spec.RestartPolicy = pick(d, always, onFailure, never)
	pod.Spec.HostNetwork = d.oneIn(8)
	container := func(name string) v1.Container {
		c := v1.Container{Name: name, Image: "image"}
		if d.oneIn(3) {
			c.StartupProbe, c.ReadinessProbe = &v1.Probe{}, &v1.Probe{}
		}
		if d.oneIn(4) {
			c.RestartPolicy = new(pick(d, v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever))
			c.RestartPolicyRules = []v1.ContainerRestartRule{{
				Action: pick(d, v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers),
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
					Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{pick[int32](d, 1, 137)},
				},
			}}
		}
		return c
	}
	for _, name := range []string{"bb", "a", "cc"}[:1+d.IntN(3)] {
		pod.Spec.Containers = append(pod.Spec.Containers, container(name))
	}
	for _, name := range []string{"z", "yy", "x"}[:d.IntN(4)] {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container(name))
	}
	if d.oneIn(4) {
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "d"}}}
	}
	return pod
}

// next makes a new observation, and now and then takes the pod further in its
// life.
func (d dice) next(in *Input) {
	st := &runtime.PodStatus{}
	for i := range d.IntN(3) {
		st.Sandboxes = append(st.Sandboxes, runtime.SandboxStatus{
			ID: runtime.SandboxID(strconv.Itoa(d.IntN(3))), Ready: i == 0 && !d.oneIn(4), NetworkKnown: true, IPs: []string{"10.0.0.1"},
		})
	}
	in.StartFailures = runtime.StartFailures{}
	for _, name := range []string{"bb", "a", "cc", "z", "yy", "x", "d"} {
		for range pick(d, 0, 1, 1, 2, 3) {
			st.Containers = append(st.Containers, d.instance(name, st, in.Now))
		}
		if d.oneIn(4) {
			in.StartFailures[name] = v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		}
	}
	if in.Observed = st; d.oneIn(20) {
		in.Observed = nil
	}
	if d.oneIn(12) {
		in.Stage = min(in.Stage+1, StageTerminated)
	}
	if d.oneIn(12) && in.Pod.DeletionTimestamp == nil {
		in.Pod = in.Pod.DeepCopy()
		in.Pod.DeletionTimestamp = new(metav1.NewTime(in.Now))
	}
	in.ResizePending, in.Resizing = nil, runtime.Resizing{UnderWay: d.oneIn(3), Error: pick(d, "", "busy")}
	if d.oneIn(3) {
		in.ResizePending = &ResizePending{Reason: pick(d, v1.PodReasonDeferred, v1.PodReasonInfeasible)}
	}
	if in.Override = nil; d.oneIn(20) {
		in.Override = &Override{Reason: "DeadlineExceeded"}
	}
}

func (d dice) instance(name string, st *runtime.PodStatus, now time.Time) runtime.ContainerStatus {
	c := runtime.ContainerStatus{
		ID: runtime.ContainerID{Runtime: "test", ID: strconv.Itoa(d.IntN(12))}, Name: name, RestartCount: int32(d.IntN(4)),
		State: pick(d, runtime.StateRunning, runtime.StateRunning, runtime.StateExited, runtime.StateExited, runtime.StateCreated, runtime.StateUnknown),
	}
	c.CreatedAt = now.Add(-time.Duration(d.IntN(200)) * time.Second)
	if c.State != runtime.StateCreated {
		c.StartedAt = c.CreatedAt
	}
	if c.State == runtime.StateExited {
		c.ExitCode, c.FinishedAt = pick[int32](d, 0, 0, 1, 137), now
		c.Reason = pick(d, "", runtime.ReasonError, runtime.ReasonOOMKilled)
	}
	if n := len(st.Sandboxes); n > 0 {
		c.Sandbox = st.Sandboxes[d.IntN(n)].ID
	}
	return c
}
