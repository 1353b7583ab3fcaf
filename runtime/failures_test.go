// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/failures.txt")

// scenario is a call of a Manager. prepare makes the state before the call.
type scenario struct {
	name    string
	prepare func(n *node, pod *v1.Pod)
	call    func(ctx context.Context, n *node, pod *v1.Pod) (runtime.Result, error)
}

func syncCall(ctx context.Context, n *node, pod *v1.Pod) (runtime.Result, error) {
	r := n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: pod})
	return r, r.Err()
}

func killCall(ctx context.Context, n *node, pod *v1.Pod) (runtime.Result, error) {
	r := n.manager.KillPod(ctx, runtime.KillRequest{Pod: pod})
	return r, r.Err()
}

// crashThrice makes container a fail three times.
func crashThrice(n *node, pod *v1.Pod) {
	for range 3 {
		n.mustSync(pod)
		require.NoError(n, n.world.Kill(pod.UID, "a", 1))
		n.pass(time.Millisecond)
		if at, waits := n.sync(pod).RetryAt(); waits && n.started("a") < 3 {
			n.pass(time.Until(at))
		}
	}
}

var scenarios = []scenario{
	{"start", func(_ *node, pod *v1.Pod) { pod.Spec.InitContainers = pod.Spec.InitContainers[1:] }, syncCall},
	{"restart", func(n *node, pod *v1.Pod) {
		crashThrice(n, pod)
		n.pass(time.Minute)
	}, syncCall},
	{"back-off", crashThrice, syncCall},
	{"change", func(n *node, pod *v1.Pod) {
		n.mustSync(pod)
		pod.Spec.Containers[0].Image = "another"
	}, syncCall},
	{"new sandbox", func(n *node, pod *v1.Pod) {
		n.mustSync(pod)
		require.NoError(n, n.world.SandboxLosesIP(pod.UID))
	}, syncCall},
	{"restart of all", func(n *node, pod *v1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, restartsAll("trigger"))
		n.mustSync(pod)
		require.NoError(n, n.world.Kill(pod.UID, "trigger", 42))
		n.pass(time.Millisecond)
	}, syncCall},
	{"resize", func(n *node, pod *v1.Pod) {
		set := func(memory string) {
			pod.Spec.Containers[1].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
		}
		set("2Gi")
		n.mustSync(pod)
		set("1Gi")
	}, syncCall},
	{"kill", func(n *node, pod *v1.Pod) { n.mustSync(pod) }, killCall},
	{"kill without a spec", func(n *node, pod *v1.Pod) { n.mustSync(pod) }, func(ctx context.Context, n *node, pod *v1.Pod) (runtime.Result, error) {
		r := n.manager.KillPod(ctx, runtime.KillRequest{UID: pod.UID})
		return r, r.Err()
	}},
	{"remove", func(n *node, pod *v1.Pod) {
		n.mustSync(pod)
		require.NoError(n, n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod}).Err())
	}, func(ctx context.Context, n *node, pod *v1.Pod) (runtime.Result, error) {
		return runtime.Result{}, n.manager.RemovePod(ctx, pod.UID)
	}},
	{"collect garbage", func(n *node, pod *v1.Pod) {
		n.mustSync(pod)
		require.NoError(n, n.world.LoseTrack(pod.UID, "a"))
		for _, name := range []string{"s", "b"} {
			require.NoError(n, n.world.Kill(pod.UID, name, 1))
		}
		n.pass(time.Minute)
	}, func(ctx context.Context, n *node, pod *v1.Pod) (runtime.Result, error) {
		return runtime.Result{}, n.manager.GarbageCollect(ctx, runtime.GCPolicy{MinAge: time.Second}, runtime.GCQuery{
			Fate: func(types.UID) runtime.PodFate { return runtime.PodGone },
		})
	}},
}

// stopper is a backend whose caller stops as soon as a call of a kind has ended: a call for sandboxes, containers or
// their status.
type stopper struct {
	*fake.Runtime
	op   fake.Op
	stop func()
}

func (s *stopper) ended(op fake.Op) {
	if op == s.op {
		s.stop()
	}
}

func (s *stopper) RunSandbox(ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
	defer s.ended(fake.OpRunSandbox)
	return s.Runtime.RunSandbox(ctx, spec)
}

func (s *stopper) StopSandbox(ctx context.Context, id runtime.SandboxID) error {
	defer s.ended(fake.OpStopSandbox)
	return s.Runtime.StopSandbox(ctx, id)
}

func (s *stopper) RemoveSandbox(ctx context.Context, id runtime.SandboxID) error {
	defer s.ended(fake.OpRemoveSandbox)
	return s.Runtime.RemoveSandbox(ctx, id)
}

func (s *stopper) CreateContainer(ctx context.Context, id runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	defer s.ended(fake.OpCreateContainer)
	return s.Runtime.CreateContainer(ctx, id, spec)
}

func (s *stopper) StartContainer(ctx context.Context, id runtime.ContainerID) error {
	defer s.ended(fake.OpStartContainer)
	return s.Runtime.StartContainer(ctx, id)
}

func (s *stopper) StopContainer(ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
	defer s.ended(fake.OpStopContainer)
	return s.Runtime.StopContainer(ctx, id, grace)
}

func (s *stopper) RemoveContainer(ctx context.Context, id runtime.ContainerID) error {
	defer s.ended(fake.OpRemoveContainer)
	return s.Runtime.RemoveContainer(ctx, id)
}

func (s *stopper) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	defer s.ended(fake.OpPodStatus)
	return s.Runtime.PodStatus(ctx, uid)
}

// TestFailures makes every call to the backend in every scenario fail, hang until the caller stops, and succeed when
// the caller stops.
// testdata/failures.txt has the error, the steps, the events, the calls and the state after each case, and the state
// after the next call without the fault.
func TestFailures(t *testing.T) {
	var out strings.Builder
	for _, s := range scenarios {
		for _, op := range s.play(t, &out, "", "") {
			s.play(t, &out, op, "fails")
			s.play(t, &out, op, "hangs")
			if op != fake.OpExec && op != fake.OpList && op != fake.OpMemoryUsage && op != fake.OpUpdateResources {
				s.play(t, &out, op, "is the last")
			}
		}
	}
	const file = "testdata/failures.txt"
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String(), "if this is right, run the test with -rewrite")
}

// play writes the effects of a fault in a scenario. The result has the kinds of calls, without the call after the
// fault.
func (s scenario) play(t *testing.T, out *strings.Builder, op fake.Op, fault string) (ops []fake.Op) {
	fmt.Fprintf(out, "== %s\n", strings.TrimSuffix(s.name+", "+string(op)+" "+fault, ",  "))
	latency := map[string]time.Duration{"a": 1, "b": 2, "i": 3, "s": 4, "trigger": 5} // concurrent calls have an order
	synctest.Test(t, func(t *testing.T) {
		world, err := fake.NewWorld(fake.WorldOptions{Latency: func(c fake.Call) time.Duration { return latency[c.Container] * time.Millisecond }})
		require.NoError(t, err)
		defer world.Close()
		n := &node{T: t, world: world, events: &recorder{}}
		n.rt, err = fake.New(fake.Options{World: world})
		require.NoError(n, err)
		rt := &stopper{Runtime: n.rt}
		generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
		require.NoError(n, err)
		n.manager, err = runtime.New(runtime.Options{Runtime: rt, Generator: generator, Events: n.events})
		require.NoError(n, err)
		n.world.Script(fake.Target{Container: "i"}, fake.Exit(fake.AtOnce, 0))
		pod := newPod(grace(5), initial("i"), sidecar("s"), hooked("a", execHandler("up"), execHandler("down")), regular("b"))
		s.prepare(n, pod)
		over := func() {}
		switch fault {
		case "fails":
			in, err := n.world.Inject(fake.Fault{On: fake.Target{Op: op}, Err: errors.New("broken")})
			require.NoError(n, err)
			over = in.Clear
		case "hangs":
			in, err := n.world.Inject(fake.Fault{On: fake.Target{Op: op}, HangUntilCtx: true})
			require.NoError(n, err)
			over = in.Clear
		case "is the last":
			rt.op, over = op, func() { rt.op = "" }
		}
		ops = s.report(n, rt, pod, out)
		if over(); fault != "" {
			n.pass(time.Minute)
			var then strings.Builder
			s.report(n, rt, pod, &then)
			for line := range strings.Lines(then.String()) {
				if strings.HasPrefix(line, "error: ") || strings.HasPrefix(line, "state: ") {
					fmt.Fprint(out, "then ", line)
				}
			}
		}
	})
	return ops
}

// report makes the call and writes its effects.
func (s scenario) report(n *node, rt *stopper, pod *v1.Pod, out *strings.Builder) []fake.Op {
	before, events := len(n.world.Journal()), len(n.events.lines)
	ctx, cancel := context.WithCancelCause(n.Context())
	defer cancel(nil)
	rt.stop = func() { cancel(errors.New("the agent stops")) }
	timer := time.AfterFunc(20*time.Second, rt.stop)
	defer timer.Stop()
	began := time.Now()
	r, err := s.call(ctx, n, pod)
	took := time.Since(began)
	line := func(what string, list []string) {
		if slices.Sort(list); len(list) > 0 {
			fmt.Fprintf(out, "%s: %s\n", what, strings.Join(list, "; "))
		}
	}
	if err != nil {
		line("error", strings.Split(err.Error(), "\n"))
	}
	if at, again := r.RetryAt(); again {
		line("again", []string{time.Until(at).String()})
	}
	var steps, told []string
	for _, step := range r.Steps {
		steps = append(steps, string(step.Action)+" "+step.Target+map[bool]string{true: " failed"}[step.Err != nil])
	}
	line("steps", steps)
	for i := events; i < len(n.events.lines); i++ {
		told = append(told, n.events.lines[i]+": "+n.events.messages[i])
	}
	line("events", told)
	count := map[fake.Op]int{}
	for _, op := range n.calls(before) {
		if op[0] >= 'A' && op[0] <= 'Z' {
			count[op]++
		}
	}
	ops := slices.Sorted(maps.Keys(count))
	var calls, states []string
	for _, op := range ops {
		calls = append(calls, fmt.Sprintf("%d %s", count[op], op))
	}
	line("calls in "+took.String(), calls)
	for _, truth := range n.world.Truth() {
		for _, c := range truth.Containers {
			states = append(states, fmt.Sprintf("%s %d %s", c.Name, c.RestartCount, c.State))
		}
		states = append(states, fmt.Sprint(len(truth.Sandboxes), " sandboxes"))
	}
	line("state", states)
	return ops
}
