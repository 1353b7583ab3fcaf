// SPDX-License-Identifier: Apache-2.0

package eviction_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/eviction"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
)

type texts = map[string]string

func policy(t testing.TB, s pressure.Settings) pressure.Policy {
	t.Helper()
	all, err := pressure.Parse(s)
	require.NoError(t, err)
	return pressure.Policy{Thresholds: all, Hold: pressure.DefaultHold}
}

// run runs a manager on a world for the rest of the test.
func run(t *testing.T, w *world, o eviction.Options) *eviction.Manager {
	t.Helper()
	o.Observer = w
	m, err := eviction.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx, w) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	synctest.Wait()
	return m
}

// evicted returns the names of the pods in the order of their evictions, a pod with a shortened grace period twice.
func (w *world) evicted() (names []string) {
	for _, e := range w.journal {
		if e.eviction != nil {
			names = append(names, e.eviction.Pod.Name)
		}
	}
	return names
}

// after lets virtual time pass.
func (w *world) after(d time.Duration) {
	func() { w.mu.Lock(); defer w.mu.Unlock() }() // what the test changed is before the next call
	time.Sleep(d)
	synctest.Wait()
}

func TestNewNamesTheWrongOption(t *testing.T) {
	w := &world{}
	for want, o := range map[string]eviction.Options{
		"Options.Observer is required": {},
		"Options.Interval -1ns":        {Observer: w, Interval: -1},
		"Options.Policy.Hold -1ns":     {Observer: w, Policy: pressure.Policy{Hold: -1}},
		"Thresholds: x<0":              {Observer: w, Policy: pressure.Policy{Thresholds: []pressure.Threshold{{Signal: "x"}}}},
		"memory.available<0 for -1ns":  {Observer: w, Policy: pressure.Policy{Thresholds: []pressure.Threshold{{Signal: pressure.MemoryAvailable, Grace: -1}}}},
	} {
		_, err := eviction.New(o)
		require.ErrorContains(t, err, want)
	}
}

// Hard memory pressure: one pod after the other, each after the end of the one before, until there is room.
func TestPodsAreEvictedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		small, large, critical := w.add(), w.add(), w.add()
		small.memory, large.memory, critical.memory = 100, 400, 450
		critical.pod.Spec.Priority = new(int32(2_000_000_000))
		var starved []pressure.Threshold
		m := run(t, w, eviction.Options{
			Policy: policy(t, pressure.Settings{Hard: texts{"memory.available": "200"}}),
			Hooks:  eviction.Hooks{Starved: func(threshold pressure.Threshold) { starved = append(starved, threshold) }},
		})
		require.Equal(t, []string{"pod-2"}, w.evicted())
		require.EqualValues(t, 1, large.grace)
		require.Equal(t, []v1.NodeConditionType{v1.NodeMemoryPressure}, m.Conditions())
		reason, message := m.Refuse(small.pod)
		require.Equal(t, "Evicted: The node had condition: [MemoryPressure]. ", reason+": "+message)
		small.memory = 500
		w.after(9 * time.Second)
		w.end(large)
		w.after(0)
		require.Equal(t, []string{"pod-2", "pod-1"}, w.evicted(), "the next pass follows the end of the pod at once")
		w.end(small)
		w.after(5 * time.Minute)
		require.Empty(t, m.Conditions())
		reason, _ = m.Refuse(small.pod)
		require.Empty(t, reason)

		critical.memory = 900
		w.after(time.Minute)
		require.Len(t, w.evicted(), 2, "critical pods stay")
		require.Len(t, starved, 3)
		require.Error(t, m.Run(t.Context(), w))
	})
}

// #123872: an eviction for a soft threshold with a long grace period blocks an eviction for a hard one.
func TestUpstream123872AHardThresholdDoesNotWaitForASoftOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		g := w.add()
		g.memory, g.pod.Spec.TerminationGracePeriodSeconds = 750, new(int64(600))
		p := policy(t, pressure.Settings{Hard: texts{"memory.available": "100"}, Soft: texts{"memory.available": "300"}, SoftGrace: texts{"memory.available": "30s"}})
		p.MaxGrace = 5 * time.Minute
		run(t, w, eviction.Options{Policy: p})
		w.after(29 * time.Second)
		require.Empty(t, w.evicted())
		w.after(time.Second)
		require.EqualValues(t, 300, g.grace)
		w.after(time.Minute)
		require.Len(t, w.evicted(), 1)
		g.memory = 950
		w.after(10 * time.Second)
		require.EqualValues(t, 1, g.grace)
		w.after(9 * time.Second)
		require.Equal(t, []string{"pod-1", "pod-1"}, w.evicted())
	})
}

// A pod that does not end is reported, and the next one is evicted 40 s later.
func TestAPodThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		stuck, other := w.add(), w.add()
		stuck.memory, other.memory = 600, 300
		var overdue []string
		run(t, w, eviction.Options{
			Policy: policy(t, pressure.Settings{Hard: texts{"memory.available": "200"}}),
			Hooks:  eviction.Hooks{Overdue: func(e pressure.Eviction) { overdue = append(overdue, e.Pod.Name) }},
		})
		w.after(9 * time.Second)
		require.Empty(t, overdue)
		w.after(time.Second)
		require.Equal(t, []string{"pod-1"}, overdue)
		w.after(29 * time.Second)
		require.Equal(t, []string{"pod-1"}, w.evicted())
		w.after(time.Second)
		require.Equal(t, []string{"pod-1", "pod-2"}, w.evicted())
		w.after(time.Hour)
		require.Equal(t, []string{"pod-1", "pod-2"}, w.evicted())
		require.Equal(t, []string{"pod-1", "pod-2"}, overdue)
	})
}

// Disk space is freed first. Only what the steps leave is an eviction's.
func TestReclaimComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{images: 300, dead: 300}
		g := w.add()
		g.volume = 350
		m := run(t, w, eviction.Options{Policy: policy(t, pressure.Settings{Hard: texts{"nodefs.available": "100", "imagefs.available": "100"}})})
		require.Len(t, w.journal, 2)
		require.Equal(t, []v1.NodeConditionType{v1.NodeDiskPressure}, m.Conditions())
		w.after(time.Hour)
		require.Len(t, w.journal, 2, "the steps were enough")
		require.Empty(t, m.Conditions())
		g.volume = 950
		w.after(10 * time.Second)
		require.Equal(t, []string{"pod-1"}, w.evicted())
		require.Len(t, w.journal, 5)
	})
}

// A failed or hanging step delays the eviction, but does not prevent it.
func TestFailedReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{images: 300}
		w.add().volume = 650
		m, err := eviction.New(eviction.Options{Observer: w, Policy: policy(t, pressure.Settings{Hard: texts{"nodefs.available": "100"}})})
		require.NoError(t, err)
		began := time.Now()
		_, err = m.Pass(t.Context(), hanging{w})
		require.NoError(t, err)
		require.Equal(t, []string{"pod-1"}, w.evicted())
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// hanging is a Node whose reclaim steps do not end by themselves.
type hanging struct{ *world }

func (hanging) Reclaim(ctx context.Context, _ pressure.Reclaim) error {
	<-ctx.Done()
	return errors.New("hangs")
}

// All pods over their limits are evicted in one pass, and are not counted again while they end.
func TestLimitsOfPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := func(n int64) func(*guest) {
			return func(g *guest) { g.pod.Spec.Containers[0].Resources.Limits[v1.ResourceEphemeralStorage] = quantity(n) }
		}
		w := &world{}
		a, b, c := w.add(limit(100)), w.add(limit(100)), w.add(limit(100))
		a.volume, b.volume, c.volume = 101, 100, 200
		m := run(t, w, eviction.Options{})
		require.Equal(t, []string{"pod-1", "pod-3"}, w.evicted())
		require.Empty(t, m.Conditions())
		w.after(time.Minute)
		require.Len(t, w.evicted(), 2)
		b.volume = 101
		w.after(10 * time.Second)
		require.Equal(t, []string{"pod-1", "pod-3", "pod-2"}, w.evicted())
	})
}

// Without pressure and without limits, no pod is measured.
func TestAQuietNodeMeasuresNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.add()
		run(t, w, eviction.Options{Policy: policy(t, pressure.Settings{Hard: pressure.DefaultHard()})})
		w.after(time.Hour)
		require.Equal(t, 361, w.levels)
		require.Nil(t, w.measured)
	})
}

// A wake-up makes a pass at once, at most one a second. The threshold decides.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, wake := &world{}, make(chan struct{}, 1)
		g := w.add()
		run(t, w, eviction.Options{Wake: wake, Policy: policy(t, pressure.Settings{Hard: texts{"memory.available": "200"}})})
		w.after(2 * time.Second)
		wake <- struct{}{}
		w.after(0)
		require.Equal(t, 2, w.levels)
		require.Empty(t, w.evicted())
		g.memory = 900
		wake <- struct{}{}
		w.after(999 * time.Millisecond)
		require.Equal(t, 2, w.levels)
		w.after(time.Millisecond)
		require.Equal(t, []string{"pod-1"}, w.evicted())
	})
}

// Without a measurement the conditions stay, and no pod is evicted. A measurement that hangs takes ten seconds.
func TestNoMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.add().memory = 900
		m, err := eviction.New(eviction.Options{Observer: mute{w}, Policy: policy(t, pressure.Settings{Hard: texts{"memory.available": "200"}})})
		require.NoError(t, err)
		began := time.Now()
		_, err = m.Pass(t.Context(), w)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 10*time.Second, time.Since(began))
		assert.Empty(t, m.Conditions())
		w.silent = true
		m = run(t, w, eviction.Options{Policy: policy(t, pressure.Settings{Hard: texts{"memory.available": "200"}})})
		w.after(time.Minute)
		assert.Empty(t, m.Conditions())
		assert.Empty(t, w.evicted())
	})
}

// mute is an Observer that does not answer.
type mute struct{ *world }

func (mute) Levels(ctx context.Context) (eviction.Levels, error) {
	<-ctx.Done()
	return eviction.Levels{}, ctx.Err()
}
