// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/prober"
)

// observed is a pod with one container with a liveness and a readiness probe, and its status.
func observed(startedAt time.Time) (*v1.Pod, *v1.PodStatus) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
	probe := &v1.Probe{PeriodSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1, TimeoutSeconds: 1}
	pod.Spec.Containers = []v1.Container{{Name: "c", LivenessProbe: probe, ReadinessProbe: probe}}
	status := &v1.PodStatus{PodIP: "10.0.0.1", ContainerStatuses: []v1.ContainerStatus{{
		Name: "c", ContainerID: "fake://1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(startedAt)}},
	}}}
	return pod, status
}

// TestResultsArePulled: without a sink, pods with new results wait in a set.
func TestResultsArePulled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		p, err := prober.New(prober.Options{Handler: prober.HandlerFunc(func(context.Context, prober.Target) (prober.Outcome, error) {
			if fails.Load() {
				return prober.Outcome{}, errors.New("down")
			}
			return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
		}), ErrorsAsFailureAfter: 1})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()

		_, known := p.Alive("fake://1")
		assert.False(t, known)
		pod, status := observed(time.Now())
		p.Observe(pod, status)
		<-p.Dirty()
		synctest.Wait()
		assert.Equal(t, []types.UID{"u"}, p.Take())
		ready, known := p.Ready("fake://1")
		assert.True(t, ready && known)
		_, known = p.Started("fake://1")
		assert.False(t, known, "it has no startup probe")

		fails.Store(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		alive, known := p.Alive("fake://1")
		assert.True(t, !alive && known)
		p.RemovePod("u")
		assert.Empty(t, p.Take(), "nothing is remembered of a pod that is gone")
		p.Observe(pod, status)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		p.CleanupPods(func(types.UID) bool { return false })
		assert.Empty(t, p.Take(), "nor of one that is cleaned up")
		cancel()
		require.NoError(t, <-ended)
	})
}

// TestObserveAdoptsWhatRanBefore: an instance of an earlier agent keeps its verdict.
func TestObserveAdoptsWhatRanBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod, status := observed(time.Now())
		time.Sleep(time.Minute)
		p, err := prober.New(prober.Options{Handler: prober.HandlerFunc(func(context.Context, prober.Target) (prober.Outcome, error) {
			return prober.Outcome{}, errors.New("never called")
		})})
		require.NoError(t, err)
		pod.Status = *status.DeepCopy()
		pod.Status.ContainerStatuses[0].Ready = true
		p.Observe(pod, status)
		ready, _ := p.Ready("fake://1")
		assert.True(t, ready)
	})
}

// An instance without an ID is ignored: its container is not probed, and has no results.
func TestInstancesWithoutAnIDAreIgnored(t *testing.T) {
	attempts := atomic.Int32{}
	handler := prober.HandlerFunc(func(context.Context, prober.Target) (prober.Outcome, error) {
		attempts.Add(1)
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	})
	inBubble(t, prober.Options{Handler: handler}, func(t *testing.T, p *prober.Prober, _ func()) {
		pod, _ := observed(time.Now())
		p.Start(pod, "c", now(""))
		time.Sleep(time.Minute)
		_, known := p.Ready("")
		assert.False(t, known)
		assert.Zero(t, attempts.Load())
		p.Start(pod, "c", now("fake://1"))
		time.Sleep(time.Minute)
		assert.Positive(t, attempts.Load())
	})
}
