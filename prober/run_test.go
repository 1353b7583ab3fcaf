// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/probertest"
)

func TestRunOnce(t *testing.T) {
	inBubble(t, prober.Options{Handler: &probertest.Handler{}}, func(t *testing.T, p *prober.Prober, stop func()) {
		synctest.Wait()
		assert.ErrorIs(t, p.Run(t.Context()), prober.ErrAlreadyRun)
		stop()
		assert.ErrorIs(t, p.Run(t.Context()), prober.ErrAlreadyRun)
	})
}

// TestBeforeAndAfterRun: Run probes instances recorded before Run, and nothing is probed afterwards.
func TestBeforeAndAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &probertest.Handler{}
		p, err := prober.New(prober.Options{Handler: h})
		require.NoError(t, err)
		pod := podOf("web", v1.Container{Name: "c", LivenessProbe: every(1)})
		p.Start(pod, "c", now("c1"))
		time.Sleep(time.Minute)
		require.Zero(t, len(h.Calls()))
		stop := run(t, p)
		synctest.Wait()
		require.Equal(t, 1, len(h.Calls()))
		stop()
		p.Start(pod, "c", now("c2"))
		p.RemovePod(pod.UID)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, len(h.Calls()))
		_, known := p.Result("c1", prober.Liveness)
		assert.True(t, known, "what was established can still be read")
		_, known = p.Result("c2", prober.Liveness)
		assert.False(t, known)
	})
}

// TestRunWaits: Run returns when every attempt has ended, and such attempts do not count.
func TestRunWaits(t *testing.T) {
	var told int
	h := prober.HandlerFunc(func(ctx context.Context, _ prober.Target) (prober.Outcome, error) {
		<-ctx.Done()
		time.Sleep(3 * time.Second) // as slow as a handler can be
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	})
	o := prober.Options{Handler: h, OnAttempt: func(prober.Attempt) { told++ }}
	inBubble(t, o, func(t *testing.T, p *prober.Prober, stop func()) {
		probe := every(60)
		probe.TimeoutSeconds = 30
		p.Start(podOf("web", v1.Container{Name: "c", ReadinessProbe: probe}), "c", now("c1"))
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.Zero(t, told)
		r, _ := p.Result("c1", prober.Readiness)
		assert.Equal(t, prober.Failure, r)
	})
}

// TestSinkMayCallBack: no lock is held while the sink, the hook and the caller's other functions are called.
func TestSinkMayCallBack(t *testing.T) {
	var p *prober.Prober
	pod := podOf("web", v1.Container{Name: "c", StartupProbe: every(1), LivenessProbe: every(1)})
	visit := func() {
		p.Snapshot()
		p.Result("c1", prober.Startup)
		p.UpdatePodStatus(pod, &v1.PodStatus{})
		p.AddPod(pod, nil)
	}
	var kinds []string
	o := prober.Options{
		Handler:   &probertest.Handler{},
		Sink:      prober.SinkFunc(func(u prober.Update) { visit(); kinds = append(kinds, u.Type.String()); p.RemovePod(u.PodUID) }),
		OnAttempt: func(prober.Attempt) { visit() },
		Tune:      func(_ *v1.Pod, _ *v1.Container, _ prober.Type, t prober.Timing) prober.Timing { p.Snapshot(); return t },
		Jitter:    func(time.Duration) time.Duration { p.Snapshot(); return 0 },
	}
	inBubble(t, o, func(t *testing.T, running *prober.Prober, _ func()) {
		p = running
		in := now("c1")
		in.Adopted = true
		p.Start(pod, "c", in)
		p.CleanupPods(func(types.UID) bool { p.Snapshot(); return true })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"Startup"}, kinds)
		assert.Empty(t, p.Snapshot())
	})
}

// TestIgnored: calls about containers without probes do nothing.
func TestIgnored(t *testing.T) {
	h := &probertest.Handler{}
	core, logs := observer.New(zapcore.DebugLevel)
	inBubble(t, prober.Options{Handler: h, Logger: zap.New(core)}, func(t *testing.T, p *prober.Prober, _ func()) {
		pod := podOf("web", v1.Container{Name: "c", LivenessProbe: every(1)})
		pod.Spec.InitContainers = []v1.Container{{Name: "init", LivenessProbe: every(1)}}
		p.Start(nil, "c", now("c1"))
		p.Start(pod, "c", prober.Instance{})
		p.Start(pod, "init", now("i1"))
		p.Start(pod, "nobody", now("n1"))
		p.AddPod(nil, map[string]prober.Instance{"c": now("c1")})
		p.AddPod(pod, map[string]prober.Instance{"init": now("i1"), "nobody": now("n1"), "c": {}})
		p.Stop("c1", prober.All)
		p.StopLivenessAndStartup("nobody")
		p.RemovePod("nobody")
		p.UpdatePodStatus(nil, nil)
		time.Sleep(3 * time.Second)
		assert.Empty(t, h.Calls())
		assert.Empty(t, p.Snapshot())

		// Pods without a UID cannot be told apart.
		nameless := podOf("web", v1.Container{Name: "c", LivenessProbe: every(1)})
		nameless.UID = ""
		p.Start(nameless, "c", now("u1"))
		p.AddPod(nameless, map[string]prober.Instance{"c": now("u2")})
		assert.Empty(t, p.Snapshot())
		assert.Len(t, logs.FilterMessage("Pod without a UID is not probed").FilterField(zap.String("pod", "ns/web")).All(), 2)

		// An ID belongs to one container only.
		p.Start(pod, "c", now("x"))
		p.Start(podOf("other", v1.Container{Name: "c", LivenessProbe: every(1)}), "c", now("x"))
		require.Len(t, p.Snapshot(), 1)
		assert.EqualValues(t, "web", p.Snapshot()[0].PodUID)
		_, known := p.Result("x", prober.All)
		assert.False(t, known, "a set is no kind")
	})
}

// TestOutputIsLimited, for any handler.
func TestOutputIsLimited(t *testing.T) {
	h := prober.HandlerFunc(func(context.Context, prober.Target) (prober.Outcome, error) {
		return prober.Outcome{Output: strings.Repeat("€", prober.MaxOutput) + "\xff"}, nil
	})
	var got prober.Attempt
	o := prober.Options{Handler: h, OnAttempt: func(a prober.Attempt) { got = a }}
	inBubble(t, o, func(t *testing.T, p *prober.Prober, _ func()) {
		p.Start(podOf("web", v1.Container{Name: "c", LivenessProbe: every(1)}), "c", now("c1"))
		synctest.Wait()
	})
	assert.Equal(t, prober.MaxOutput/3*3, len(got.Output))
	assert.Equal(t, prober.VerdictFailure, got.Verdict, "no verdict and no error is a failure")
}

// TestCleanupPodsAsksOncePerPod: a pod added again during the keep call is a new pod.
func TestCleanupPodsAsksOncePerPod(t *testing.T) {
	pod := podOf("web", v1.Container{Name: "c", LivenessProbe: every(1)})
	inBubble(t, prober.Options{Handler: &probertest.Handler{}}, func(t *testing.T, p *prober.Prober, _ func()) {
		p.Start(pod, "c", now("c1"))
		p.CleanupPods(func(types.UID) bool {
			p.RemovePod(pod.UID)
			p.Start(pod, "c", now("c2"))
			return false
		})
		assert.Len(t, p.Snapshot(), 1)
	})
}

// TestLateness: a waiting attempt happens once, late, and reports its lateness.
func TestLateness(t *testing.T) {
	h := &probertest.Handler{}
	h.Set("", "c", prober.Liveness, probertest.Behaviour{Takes: 900 * time.Microsecond})
	var late []time.Duration
	o := prober.Options{Handler: h, OnAttempt: func(a prober.Attempt) { late = append(late, a.Lateness()) }}
	inBubble(t, o, func(t *testing.T, p *prober.Prober, _ func()) {
		p.Narrow(1, 1)
		for _, name := range []string{"a", "b", "c"} {
			p.Start(podOf(name, v1.Container{Name: "c", LivenessProbe: every(10)}), "c", now(name))
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, 900 * time.Microsecond, 1800 * time.Microsecond}, late)
	})
}

// TestWaitingProbeTakesTheFirstPlaceThatIsFreed: two attempts hang. The older one loses its place after
// 1 ms, and the waiting probe begins then, not when the other loses its place too.
func TestWaitingProbeTakesTheFirstPlaceThatIsFreed(t *testing.T) {
	h := &probertest.Handler{}
	h.Set("", "hangs", prober.Liveness, probertest.Behaviour{Takes: 30 * time.Second})
	var late []time.Duration
	o := prober.Options{Handler: h, OnAttempt: func(a prober.Attempt) {
		if a.Target.Container.Name == "c" {
			late = append(late, a.Lateness())
		}
	}}
	inBubble(t, o, func(t *testing.T, p *prober.Prober, _ func()) {
		p.Narrow(2, 2)
		start := func(name, container string) {
			p.Start(podOf(name, v1.Container{Name: container, LivenessProbe: every(10)}), container, now(name))
		}
		start("a", "hangs")
		time.Sleep(500 * time.Microsecond)
		start("b", "hangs")
		start("w", "c")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, []time.Duration{500 * time.Microsecond}, late)
	})
}

// TestLog: changed results are logged, with the usual keys and never with the output.
func TestLog(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	h := &probertest.Handler{}
	h.Set("", "c", prober.Liveness, probertest.Behaviour{Verdict: prober.VerdictFailure, Output: "s3cret"})
	h.Set("", "c", prober.Readiness, probertest.Break("the runtime is down"))
	inBubble(t, prober.Options{Handler: h, Logger: zap.New(core)}, func(t *testing.T, p *prober.Prober, _ func()) {
		p.Start(podOf("web", v1.Container{Name: "c", LivenessProbe: every(1), ReadinessProbe: every(1)}), "c", now("c1"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
	})
	var lines []string
	for _, e := range logs.All() {
		lines = append(lines, e.Message)
		assert.Equal(t, "ns/web", e.ContextMap()["pod"])
		assert.Equal(t, "web", e.ContextMap()["podUID"])
		assert.Equal(t, "c", e.ContextMap()["container"])
		assert.Equal(t, "c1", e.ContextMap()["containerID"])
		for _, value := range e.ContextMap() {
			text, _ := value.(string)
			assert.False(t, strings.Contains(text, "s3cret"))
		}
		if e.Message == "Probe attempt has no verdict" {
			assert.Equal(t, "Readiness", e.ContextMap()["probe"])
			assert.Contains(t, e.ContextMap()["error"], "the runtime is down")
		}
	}
	assert.ElementsMatch(t, []string{"Probe result changed", "Probe attempt has no verdict"}, lines)
}

// TestTuneOfOptions: the caller's Tune is asked for each probe of its pod.
func TestTuneOfOptions(t *testing.T) {
	h := &probertest.Handler{}
	pod := podOf("web", v1.Container{Name: "c", ReadinessProbe: every(60)})
	o := prober.Options{Handler: h, Tune: func(p *v1.Pod, c *v1.Container, kind prober.Type, spec prober.Timing) prober.Timing {
		assert.Same(t, pod, p)
		assert.Equal(t, "c", c.Name)
		assert.Equal(t, prober.Readiness, kind)
		spec.Period = time.Second
		return spec
	}}
	inBubble(t, o, func(t *testing.T, p *prober.Prober, _ func()) {
		p.Start(pod, "c", now("c1"))
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		assert.GreaterOrEqual(t, len(h.Calls()), 10)
	})
}

// TestSnapshotIsSorted by namespace, name, UID, container and kind.
func TestSnapshotIsSorted(t *testing.T) {
	inBubble(t, prober.Options{Handler: &probertest.Handler{}}, func(t *testing.T, p *prober.Prober, _ func()) {
		var want []string
		var pods []*v1.Pod
		for _, namespace := range []string{"a", "b"} {
			for _, name := range []string{"a", "b"} {
				for _, uid := range []string{"1", "2"} {
					pod := podOf(namespace+name+uid, v1.Container{Name: "x", ReadinessProbe: every(1), LivenessProbe: every(1)}, v1.Container{Name: "y", LivenessProbe: every(1)})
					pod.Namespace, pod.Name = namespace, name
					pods = append(pods, pod)
					for _, probe := range []string{"x Readiness", "x Liveness", "y Liveness"} {
						want = append(want, namespace+" "+name+" "+string(pod.UID)+" "+probe)
					}
				}
			}
		}
		for _, pod := range slices.Backward(pods) {
			for _, c := range []string{"y", "x"} {
				p.Start(pod, c, now(string(pod.UID)+c))
			}
		}
		var got []string
		for _, s := range p.Snapshot() {
			got = append(got, strings.Join([]string{s.Pod.Namespace, s.Pod.Name, string(s.PodUID), s.Container, s.Type.String()}, " "))
		}
		assert.Equal(t, want, got)
	})
}

// TestNoAttemptAfterTheEnd: when ctx ends, the places of cancelled attempts go to no waiting probe.
func TestNoAttemptAfterTheEnd(t *testing.T) {
	calls := 0
	h := prober.HandlerFunc(func(ctx context.Context, _ prober.Target) (prober.Outcome, error) {
		calls++
		<-ctx.Done()
		return prober.Outcome{}, ctx.Err()
	})
	inBubble(t, prober.Options{Handler: h}, func(t *testing.T, p *prober.Prober, stop func()) {
		p.Narrow(1, 1)
		probe := every(60)
		probe.TimeoutSeconds = 30
		for _, name := range []string{"a", "b", "c"} {
			p.Start(podOf(name, v1.Container{Name: "c", ReadinessProbe: probe}), "c", now(name))
		}
		synctest.Wait()
		stop()
		assert.Equal(t, 1, calls)
	})
}

// TestSnapshotTellsTheNextAttempt: a probe that waits is due at the time of its next attempt.
func TestSnapshotTellsTheNextAttempt(t *testing.T) {
	inBubble(t, prober.Options{Handler: &probertest.Handler{}}, func(t *testing.T, p *prober.Prober, _ func()) {
		began := time.Now()
		p.Start(podOf("web", v1.Container{Name: "c", LivenessProbe: every(10)}), "c", now("c1"))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		result, known := p.Result("c1", prober.Liveness)
		assert.True(t, known)
		assert.NotZero(t, result)
		assert.Equal(t, []prober.State{{
			Pod: types.NamespacedName{Namespace: "ns", Name: "web"}, PodUID: "web", Container: "c", ID: "c1", Type: prober.Liveness,
			Stage: prober.StageWaiting, Result: result, Run: 1, Due: began.Add(10 * time.Second),
		}}, p.Snapshot())
	})
}

// TestDefaultConcurrency: at most 64 attempts on the network and 32 of exec are in progress, once their duration is known.
func TestDefaultConcurrency(t *testing.T) {
	for _, c := range []struct {
		probe *v1.Probe
		most  int64
	}{{every(30), 64}, {everyExec(30), 32}} {
		var under, most atomic.Int64
		h := prober.HandlerFunc(func(context.Context, prober.Target) (prober.Outcome, error) {
			most.Store(max(most.Load(), under.Add(1)))
			time.Sleep(100 * time.Millisecond)
			under.Add(-1)
			return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
		})
		inBubble(t, prober.Options{Handler: h}, func(t *testing.T, p *prober.Prober, _ func()) {
			for i, pod := range manyPods(300, func(container *v1.Container) { container.LivenessProbe = c.probe }) {
				p.Start(pod, "c", now(fmt.Sprint(i)))
			}
			time.Sleep(4*30*time.Second - time.Second)
			most.Store(0)
			time.Sleep(5 * time.Second)
			assert.Equal(t, c.most, most.Load())
		})
	}
}
