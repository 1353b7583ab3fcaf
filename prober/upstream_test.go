// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/probertest"
)

// The faults of the kubelet below have no script in testdata; all others have a script.

// TestUpstream140977StopCancelsTheAttempt: in the kubelet an attempt runs to its end and its result is recorded.
func TestUpstream140977StopCancelsTheAttempt(t *testing.T) {
	for name, stop := range map[string]func(p *prober.Prober, pod *v1.Pod){
		"Stop":                   func(p *prober.Prober, _ *v1.Pod) { p.Stop("c1", prober.Liveness) },
		"StopLivenessAndStartup": func(p *prober.Prober, pod *v1.Pod) { p.StopLivenessAndStartup(pod.UID) },
		"RemovePod":              func(p *prober.Prober, pod *v1.Pod) { p.RemovePod(pod.UID) },
		"CleanupPods":            func(p *prober.Prober, _ *v1.Pod) { p.CleanupPods(func(types.UID) bool { return false }) },
		"AddPod":                 func(p *prober.Prober, pod *v1.Pod) { p.AddPod(pod, map[string]prober.Instance{}) },
		"the next instance":      func(p *prober.Prober, pod *v1.Pod) { p.Start(pod, "c", now("c2")) },
	} {
		t.Run(name, func(t *testing.T) {
			probe := every(10)
			probe.TimeoutSeconds, probe.FailureThreshold = 60, 1
			pod := podOf("web", v1.Container{Name: "c", LivenessProbe: probe})
			h := &probertest.Handler{}
			h.Set("", "c", prober.Liveness, probertest.Hang())
			var updates []prober.Update
			sink := prober.SinkFunc(func(u prober.Update) { updates = append(updates, u) })
			inBubble(t, prober.Options{Handler: h, Sink: sink}, func(t *testing.T, p *prober.Prober, _ func()) {
				p.Start(pod, "c", now("c1"))
				time.Sleep(5 * time.Second)
				synctest.Wait()
				require.Len(t, h.Calls(), 1)
				stop(p, pod)
				synctest.Wait()
				call := h.Calls()[0]
				assert.Error(t, call.Interrupted)
				assert.Equal(t, 5*time.Second, call.Ended.Sub(call.Started), "cancelled at once")
				assert.Empty(t, updates)
			})
		})
	}
}

// TestUpstream140881ReadinessOutlivesTheSync: attempts depend only on the context of Run.
func TestUpstream140881ReadinessOutlivesTheSync(t *testing.T) {
	var seen []context.Context
	h := prober.HandlerFunc(func(ctx context.Context, _ prober.Target) (prober.Outcome, error) {
		seen = append(seen, ctx)
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	})
	pod := podOf("web", v1.Container{Name: "c", ReadinessProbe: every(1)})
	inBubble(t, prober.Options{Handler: h}, func(t *testing.T, p *prober.Prober, _ func()) {
		p.Start(pod, "c", now("c1"))
		p.StopLivenessAndStartup(pod.UID)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, seen, 3)
	})
}

// TestUpstream74732ErrorsCanCountAsFailures (106682, 129552, 92464): in the kubelet, a container whose probe always
// ends with an error keeps its result.
func TestUpstream74732ErrorsCanCountAsFailures(t *testing.T) {
	pod := podOf("web", v1.Container{Name: "c", ReadinessProbe: every(1)})
	for _, tc := range []struct {
		after int
		want  prober.Result
	}{{0, prober.Success}, {2, prober.Failure}} {
		h := &probertest.Handler{}
		o := prober.Options{Handler: h, ErrorsAsFailureAfter: tc.after}
		inBubble(t, o, func(t *testing.T, p *prober.Prober, _ func()) {
			p.Start(pod, "c", now("c1"))
			time.Sleep(500 * time.Millisecond)
			h.Set("", "c", prober.All, probertest.Break("no such runtime"))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			got, _ := p.Result("c1", prober.Readiness)
			assert.Equal(t, tc.want, got)
			state := p.Snapshot()[0]
			assert.Equal(t, 10, state.Errored)
			assert.Equal(t, 10, state.Errors)
		})
	}
}

// TestUpstreamTriesShareOneTimeout: in the kubelet each of three tries has the whole timeout.
func TestUpstreamTriesShareOneTimeout(t *testing.T) {
	var tries int
	h := prober.HandlerFunc(func(ctx context.Context, _ prober.Target) (prober.Outcome, error) {
		tries++
		select {
		case <-ctx.Done():
			return prober.Outcome{}, errors.New("some other error")
		case <-time.After(400 * time.Millisecond):
			return prober.Outcome{}, errors.New("try again")
		}
	})
	var attempts []prober.Attempt
	o := prober.Options{Handler: h, OnAttempt: func(a prober.Attempt) { attempts = append(attempts, a) }}
	inBubble(t, o, func(t *testing.T, p *prober.Prober, _ func()) {
		p.Start(podOf("web", v1.Container{Name: "c", LivenessProbe: every(10)}), "c", now("c1"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Len(t, attempts, 1)
		assert.Equal(t, 3, tries)
		assert.Equal(t, time.Second, attempts[0].Duration())
		assert.Equal(t, prober.VerdictFailure, attempts[0].Verdict, "what is too late is a failure, whatever the error")
		assert.Equal(t, "timed out after 1s", attempts[0].Output)
	})
}

// TestUpstreamBlockedConsumerDoesNotBlockProbes: the kubelet's channel of 20 results stalls its probe workers.
func TestUpstreamBlockedConsumerDoesNotBlockProbes(t *testing.T) {
	h := &probertest.Handler{}
	var release chan struct{} // of the bubble
	var told []prober.Update
	sink := prober.SinkFunc(func(u prober.Update) { <-release; told = append(told, u) })
	inBubble(t, prober.Options{Handler: h, Sink: sink}, func(t *testing.T, p *prober.Prober, _ func()) {
		release = make(chan struct{})
		probe := every(1)
		probe.FailureThreshold = 1
		time.Sleep(500 * time.Millisecond)
		for i, pod := range manyPods(100, func(c *v1.Container) { c.ReadinessProbe = probe }) {
			p.Start(pod, "c", now(fmt.Sprint(i)))
		}
		time.Sleep(500 * time.Millisecond) // between two attempts
		for round := range 9 {
			time.Sleep(time.Second)
			h.Set("", "c", prober.Readiness, []probertest.Behaviour{probertest.Fail(), probertest.Pass()}[round%2])
		}
		synctest.Wait()
		assert.GreaterOrEqual(t, len(h.Calls()), 900)
		close(release)
		synctest.Wait()
		require.Len(t, told, 100, "one each: nothing, if the latest is what is known already")
		for _, u := range told[1:] {
			assert.Equal(t, prober.Success, u.Result)
		}
	})
}

// TestUpstream118396ConcurrencyIsBounded (82440, 10659): all probes of an agent fire at once in the kubelet. Here
// concurrent attempts are bounded once their usual duration is known. Due attempts are never dropped, and exec has its
// own bound.
func TestUpstream118396ConcurrencyIsBounded(t *testing.T) {
	var network, exec, most, mostExec atomic.Int64
	h := prober.HandlerFunc(func(_ context.Context, target prober.Target) (prober.Outcome, error) {
		under, peak := &network, &most
		if target.Probe.Exec != nil {
			under, peak = &exec, &mostExec
		}
		peak.Store(max(peak.Load(), under.Add(1)))
		time.Sleep(100 * time.Millisecond)
		under.Add(-1)
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	})
	inBubble(t, prober.Options{Handler: h}, func(t *testing.T, p *prober.Prober, _ func()) {
		p.Narrow(7, 3)
		for i, pod := range manyPods(60, func(c *v1.Container) { c.LivenessProbe, c.ReadinessProbe = everyExec(30), every(30) }) {
			p.Start(pod, "c", now(fmt.Sprint(i)))
		}
		time.Sleep(4*30*time.Second - time.Second)
		most.Store(0)
		mostExec.Store(0)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 7, most.Load())
		assert.EqualValues(t, 3, mostExec.Load())
		for _, s := range p.Snapshot() {
			assert.Equal(t, 5, s.Run, "%s %s", s.ID, s.Type)
			assert.Equal(t, prober.StageWaiting, s.Stage)
		}
	})
}

// TestUpstreamIdleProbesNeedNoGoroutine: the kubelet has a goroutine and a ticker per probe.
func TestUpstreamIdleProbesNeedNoGoroutine(t *testing.T) {
	inBubble(t, prober.Options{Handler: &probertest.Handler{}}, func(t *testing.T, p *prober.Prober, _ func()) {
		before := goruntime.NumGoroutine()
		for i, pod := range manyPods(2000, func(c *v1.Container) { c.LivenessProbe = every(10) }) {
			p.Start(pod, "c", now(fmt.Sprint(i)))
		}
		time.Sleep(25 * time.Second)
		synctest.Wait()
		assert.LessOrEqual(t, goruntime.NumGoroutine(), before+5)
	})
}

// TestUpstreamPodWithoutAddress: the kubelet dials its own localhost. Here a pod without an address has no verdict, and
// gets a verdict as soon as its address is known.
func TestUpstreamPodWithoutAddress(t *testing.T) {
	h := prober.HandlerFunc(func(_ context.Context, target prober.Target) (prober.Outcome, error) {
		if target.Instance.PodIP == "" {
			return prober.Outcome{}, errors.New("no address")
		}
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	})
	pod := podOf("web", v1.Container{Name: "c", ReadinessProbe: every(60)})
	inBubble(t, prober.Options{Handler: h}, func(t *testing.T, p *prober.Prober, _ func()) {
		in := now("c1")
		in.PodIP = ""
		p.Start(pod, "c", in)
		time.Sleep(time.Second)
		synctest.Wait()
		r, _ := p.Result("c1", prober.Readiness)
		assert.Equal(t, prober.Failure, r)
		in.PodIP = "10.0.0.1"
		p.AddPod(pod, map[string]prober.Instance{"c": in})
		synctest.Wait()
		r, _ = p.Result("c1", prober.Readiness)
		assert.Equal(t, prober.Success, r)
	})
}
