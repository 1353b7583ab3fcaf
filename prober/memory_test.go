// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"context"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/prober"
)

// TestRemovedPodsAreNotKept: the garbage collector frees every removed pod, whether its probes had a delivered result,
// timed out without their handler, were refused, or were stopped in the queue.
func TestRemovedPodsAreNotKept(t *testing.T) {
	for _, tc := range []struct {
		name      string
		instances int
		act       func(ctx context.Context, closed chan struct{}) error
	}{
		{"a result", 1, func(context.Context, chan struct{}) error { return nil }},
		{"a timeout", 1, func(ctx context.Context, _ chan struct{}) error { <-ctx.Done(); return ctx.Err() }},
		{"a handler that does not return", 1, func(_ context.Context, closed chan struct{}) error { <-closed; return nil }},
		{"attempts that were not made", 4, func(_ context.Context, closed chan struct{}) error { <-closed; return nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var closed chan struct{}
			handler := prober.HandlerFunc(func(ctx context.Context, _ prober.Target) (prober.Outcome, error) {
				return prober.Outcome{Verdict: prober.VerdictSuccess}, tc.act(ctx, closed)
			})
			inBubble(t, prober.Options{Handler: handler}, func(t *testing.T, p *prober.Prober, _ func()) {
				p.Narrow(64, 1)
				closed = make(chan struct{})
				pods := probedAndRemoved(p, tc.instances)
				close(closed)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Empty(t, p.Snapshot())
				goruntime.GC()
				for i, pod := range pods {
					assert.True(t, pod.Value() == nil, "pod %d is kept", i)
				}
			})
		})
	}
}

// probedAndRemoved probes three pods for a while and removes them.
func probedAndRemoved(p *prober.Prober, instances int) (pods []weak.Pointer[v1.Pod]) {
	uids := []types.UID{"a", "b", "c"}
	for _, uid := range uids {
		pod := podOf(string(uid), v1.Container{Name: "c", ReadinessProbe: everyExec(1), LivenessProbe: every(1)})
		for i := range instances {
			p.Start(pod, "c", now(string(uid)+string(rune('0'+i))))
			synctest.Wait()
		}
		pods = append(pods, weak.Make(pod))
	}
	time.Sleep(10 * time.Second)
	synctest.Wait()
	for _, uid := range uids {
		p.RemovePod(uid)
	}
	return pods
}

// A pod without a running instance is not kept if the prober does not know the pod, for example because
// the call is later than RemovePod.
func TestPodsWithoutInstancesAreNotKept(t *testing.T) {
	handler := prober.HandlerFunc(func(context.Context, prober.Target) (prober.Outcome, error) {
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	})
	inBubble(t, prober.Options{Handler: handler}, func(t *testing.T, p *prober.Prober, _ func()) {
		var pods []weak.Pointer[v1.Pod]
		for _, running := range []map[string]prober.Instance{nil, {}} {
			pod := podOf("late", v1.Container{Name: "c", LivenessProbe: every(1)})
			p.AddPod(pod, map[string]prober.Instance{"c": now("1")})
			p.RemovePod("late")
			p.AddPod(pod, running)
			pods = append(pods, weak.Make(pod))
		}
		synctest.Wait()
		goruntime.GC()
		for i, pod := range pods {
			assert.True(t, pod.Value() == nil, "pod %d is kept", i)
		}
		goruntime.KeepAlive(p)
	})
}
