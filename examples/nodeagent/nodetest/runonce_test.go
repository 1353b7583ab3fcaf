// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// onceOver is a world and an agent that runs pods there once.
type onceOver struct {
	*testing.T
	world *fake.World
	agent *node.Agent
}

func newOnceOver(t *testing.T, change func(*node.Options), pods ...*v1.Pod) *onceOver {
	t.Helper()
	world, err := fake.NewWorld(fake.WorldOptions{})
	require.NoError(t, err)
	t.Cleanup(world.Close)
	rt, err := fake.New(fake.Options{World: world})
	require.NoError(t, err)
	opts := node.Options{
		NodeName: "node", Root: t.TempDir(), Runtime: rt, OnShutdown: node.KeepPods, Mounter: mount.None{},
		Sources: []podconfig.Source{podconfig.SourceFunc(podconfig.SourceFile, func(ctx context.Context, out podconfig.Sink) error {
			if err := out.Submit(ctx, podconfig.Snapshot(pods...)); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
			if err := out.Submit(ctx, podconfig.Snapshot()); err != nil { // the receiver has ended
				return err
			}
			<-ctx.Done()
			return nil
		})},
	}
	if change != nil {
		change(&opts)
	}
	agent, err := node.New(opts)
	require.NoError(t, err)
	return &onceOver{t, world, agent}
}

// run runs the pods and returns the errors of each by name, and how long it took.
func (o *onceOver) run(limits node.RunOnceOptions) (failed map[string]error, took time.Duration, err error) {
	o.Helper()
	began := time.Now()
	results, err := o.agent.RunOnce(o.Context(), limits)
	took = time.Since(began)
	failed = map[string]error{}
	for _, r := range results {
		failed[r.Pod.Name] = r.Err
		if r.Err != nil {
			require.ErrorIs(o, err, r.Err)
		}
	}
	return failed, took, err
}

func TestRunOnce(t *testing.T) {
	never, onFailure := nodetest.RestartPolicy(v1.RestartPolicyNever), nodetest.RestartPolicy(v1.RestartPolicyOnFailure)
	for _, tt := range []struct {
		name   string
		pod    *v1.Pod
		script func(*fake.World)
		agent  func(*node.Options)
		limits node.RunOnceOptions
		took   time.Duration
		phase  v1.PodPhase
		want   error
		says   string
	}{
		{name: "a service is up", pod: nodetest.Pod("p", nodetest.InitContainer("i"), nodetest.Container("c")), took: 3 * time.Second, phase: v1.PodRunning,
			script: func(w *fake.World) { w.Script(fake.Target{Container: "i"}, fake.Exit(3*time.Second, 0)) }},
		{name: "a service is ready", pod: nodetest.Pod("p", nodetest.Container("c"), readiness), took: 20 * time.Second, phase: v1.PodRunning,
			script: func(w *fake.World) {
				w.Script(fake.Target{Container: "c"}, fake.Script{ReadyAfter: 20 * time.Second})
			}},
		{name: "a job is done", pod: nodetest.Pod("p", nodetest.Container("c"), never), took: time.Minute, phase: v1.PodSucceeded,
			script: func(w *fake.World) { w.Script(fake.Target{Container: "c"}, fake.Exit(time.Minute, 0)) }},
		{name: "a job is done at the second try", pod: nodetest.Pod("p", nodetest.Container("c"), onFailure), took: 2 * time.Minute, phase: v1.PodSucceeded,
			script: func(w *fake.World) {
				w.Script(fake.Target{Container: "c"}, fake.Exit(time.Minute, 1), fake.Exit(time.Minute, 0))
			}},
		{name: "a job has failed", pod: nodetest.Pod("p", nodetest.Container("c"), never), took: time.Minute, phase: v1.PodFailed, want: node.ErrPodFailed,
			script: func(w *fake.World) { w.Script(fake.Target{Container: "c"}, fake.Exit(time.Minute, 1)) }},
		{name: "a job took too long", pod: nodetest.Pod("p", nodetest.Container("c"), never, deadline(40)), took: 40 * time.Second, phase: v1.PodFailed, want: node.ErrPodFailed, says: "DeadlineExceeded"},
		{name: "rejected", pod: nodetest.Pod("p", nodetest.Container("c"), cpu("2")), agent: cpus("1"), phase: v1.PodFailed, want: node.ErrPodRejected, says: "Node didn't have enough resource: cpu"},
		{name: "does not come up in time", pod: nodetest.Pod("p", nodetest.Container("c"), readiness), took: 1023 * time.Second, phase: v1.PodRunning, want: node.ErrPodNotRunning, says: "after 17m3s",
			script: func(w *fake.World) { w.Script(fake.Target{Container: "c"}, fake.Script{ReadyAfter: fake.Never}) }},
		{name: "is tried ten times", pod: nodetest.Pod("p", nodetest.Container("c"), onFailure), limits: node.RunOnceOptions{Timeout: 24 * time.Hour},
			took: 1520 * time.Second, phase: v1.PodRunning, want: node.ErrPodNotRunning, says: "after 10 retries",
			script: func(w *fake.World) { w.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOnceOver(t, tt.agent, tt.pod)
				if tt.script != nil {
					tt.script(o.world)
				}
				results, took, err := o.run(tt.limits)
				require.Len(t, results, 1)
				require.InDelta(t, tt.took.Seconds(), took.Seconds(), 1)
				require.ErrorIs(t, results["p"], tt.want)
				require.ErrorIs(t, err, tt.want)
				if tt.says != "" {
					require.ErrorContains(t, err, tt.says)
				}
				require.Equal(t, tt.phase, phaseOf(o.agent, "p"))
			})
		})
	}
}

func readiness(p *v1.Pod) {
	p.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1,
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/ready"}}}}
}

func phaseOf(a *node.Agent, name string) v1.PodPhase {
	for _, p := range a.Pods() {
		if p.Name == name {
			return p.Status.Phase
		}
	}
	return ""
}

// All pods start at once, and the slowest decides. Running pods are left running.
func TestRunOnceOfManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOnceOver(t, nil,
			nodetest.Pod("web", nodetest.Container("w")),
			nodetest.Pod("job", nodetest.Container("j"), nodetest.RestartPolicy(v1.RestartPolicyNever)),
			nodetest.Pod("bad", nodetest.Container("b"), nodetest.RestartPolicy(v1.RestartPolicyNever)))
		o.world.Script(fake.Target{Container: "j"}, fake.Exit(time.Minute, 0))
		o.world.Script(fake.Target{Container: "b"}, fake.Exit(time.Second, 3))
		results, took, err := o.run(node.RunOnceOptions{})
		require.Len(t, results, 3)
		require.NoError(t, results["web"])
		require.NoError(t, results["job"])
		require.ErrorIs(t, results["bad"], node.ErrPodFailed)
		require.EqualError(t, err, "pod default/bad: the pod has failed")
		require.InDelta(t, 60, took.Seconds(), 1)
		require.Empty(t, o.world.Journal().Of(fake.Target{Op: fake.OpExited, Container: "w"}))
	})
}

// The kubelet gave up at the first failed sync.
func TestRunOnceTriesAgainWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOnceOver(t, nil, nodetest.Pod("web", nodetest.Container("w")))
		_, err := o.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Err: errors.New("not yet"), Times: 3})
		require.NoError(t, err)
		results, _, err := o.run(node.RunOnceOptions{})
		require.NoError(t, err)
		require.Contains(t, results, "web")
	})
}

func TestRunOnceGivesUpOnWhatNeverWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOnceOver(t, nil, nodetest.Pod("web", nodetest.Container("w")))
		_, err := o.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Err: errors.New("no network here")})
		require.NoError(t, err)
		_, took, err := o.run(node.RunOnceOptions{})
		require.ErrorIs(t, err, node.ErrPodNotRunning)
		require.ErrorContains(t, err, "no network here")
		require.Less(t, took, 1023*time.Second)
	})
}

func TestRunOnceWithoutManifests(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			results, took, err := newOnceOver(t, nil).run(node.RunOnceOptions{})
			require.NoError(t, err)
			require.Empty(t, results)
			require.Less(t, took, time.Second)
		})
	})
	t.Run("a silent source", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			silent := podconfig.SourceFunc(podconfig.SourceHTTP, func(ctx context.Context, _ podconfig.Sink) error {
				<-ctx.Done()
				return nil
			})
			o := newOnceOver(t, func(o *node.Options) { o.Sources = append(o.Sources, silent) })
			_, took, err := o.run(node.RunOnceOptions{})
			require.ErrorIs(t, err, node.ErrNoManifests)
			require.EqualError(t, err, "no pod manifest update after 30s from http")
			require.Equal(t, 30*time.Second, took)
		})
	})
	t.Run("a source that fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			failing := podconfig.SourceFunc(podconfig.SourceHTTP, func(context.Context, podconfig.Sink) error { return errors.New("no disk") })
			o := newOnceOver(t, func(o *node.Options) { o.Sources = append(o.Sources, failing) })
			_, _, err := o.run(node.RunOnceOptions{})
			require.ErrorContains(t, err, "no disk")
		})
	})
}

// The end of ctx ends all pods, and the result names pods that had not started.
func TestRunOnceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOnceOver(t, func(o *node.Options) { o.OnShutdown = node.StopPods },
			nodetest.Pod("job", nodetest.Container("c"), nodetest.RestartPolicy(v1.RestartPolicyNever)))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("enough"))
		defer cancel()
		results, err := o.agent.RunOnce(ctx, node.RunOnceOptions{})
		require.Len(t, results, 1)
		require.EqualError(t, results[0].Err, "enough")
		require.ErrorIs(t, err, results[0].Err)
		require.Len(t, o.world.Journal().Of(fake.Target{Op: fake.OpExited, Container: "c"}), 1)
		_, err = o.agent.RunOnce(t.Context(), node.RunOnceOptions{})
		require.ErrorContains(t, err, "before")
	})
}

func TestRunOnceOptionsAreChecked(t *testing.T) {
	_, err := newOnceOver(t, nil).agent.RunOnce(t.Context(), node.RunOnceOptions{Timeout: -1})
	require.ErrorContains(t, err, "Timeout")
}
