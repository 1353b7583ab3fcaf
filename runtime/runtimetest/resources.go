// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

func resourceCases() []testCase {
	return []testCase{
		{"UpdateIsReported", updateIsReported},
		{"UpdateTakesLimitsAway", updateTakesLimitsAway},
		{"UpdateNeedsARunningContainer", updateNeedsARunningContainer},
		{"MemoryUsageIsTold", memoryUsageIsTold},
		{"StatsOfOneContainer", statsOfOneContainer},
		{"StatsOfAllPods", statsOfAllPods},
		{"StatsNeedARunningContainer", statsNeedARunningContainer},
	}
}

func (b *bench) updater() runtime.Updater {
	u, ok := b.rt.(runtime.Updater)
	if !ok {
		b.Skip("the backend is no runtime.Updater")
	}
	return u
}

func (b *bench) statsReader() stats.Reader {
	s, ok := b.rt.(stats.Reader)
	if !ok {
		b.Skip("the backend is no stats.Reader")
	}
	return s
}

// demand makes requirements. "" means no request or no limit.
func demand(cpuRequest, memoryRequest, cpuLimit, memoryLimit string) v1.ResourceRequirements {
	list := func(cpu, memory string) v1.ResourceList {
		out := v1.ResourceList{}
		for name, text := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
			if text != "" {
				out[name] = resource.MustParse(text)
			}
		}
		return out
	}
	return v1.ResourceRequirements{Requests: list(cpuRequest, memoryRequest), Limits: list(cpuLimit, memoryLimit)}
}

// limited starts a container with limits. A backend may refuse all limits.
func (b *bench) limited(want v1.ResourceRequirements) (*testPod, runtime.ContainerID) {
	p := b.pod("main")
	p.Spec.Containers[0].Resources = want
	if c, ok := b.rt.(runtime.Checker); ok {
		if err := c.CheckPod(p.Pod); err != nil {
			b.Skip(err)
		}
	}
	return p, b.run(p, b.sandbox(p, 0), "main", 0, Behaviour{})
}

// requireLimits checks the reported limits, if the backend reports limits.
func (b *bench) requireLimits(p *testPod, id runtime.ContainerID, want v1.ResourceRequirements) {
	b.Helper()
	c := b.mustState(p, id, runtime.StateRunning, ruleUpdate)
	if c.Resources == nil {
		return
	}
	for name, slack := range map[v1.ResourceName]int64{v1.ResourceCPU: 1, v1.ResourceMemory: 64 << 10} {
		reported, given := c.Resources.Limits[name], want.Limits[name]
		far := reported.MilliValue() - given.MilliValue()
		if name == v1.ResourceMemory {
			far = reported.Value() - given.Value()
		}
		require.LessOrEqual(b, max(far, -far), slack, "%s: the limit of %s is reported as %s, and is %s", ruleUpdateTold, name, &reported, &given)
	}
}

func updateIsReported(b *bench) {
	u := b.updater()
	made := demand("100m", "32Mi", "500m", "64Mi")
	p, id := b.limited(made)
	b.requireLimits(p, id, made)
	for _, want := range []v1.ResourceRequirements{
		demand("200m", "64Mi", "1", "128Mi"),
		demand("50m", "16Mi", "250m", "48Mi"),
		demand("50m", "16Mi", "250m", "48Mi"), // repeated
	} {
		require.NoError(b, u.UpdateResources(b.Context(), id, want), ruleUpdate)
		b.requireLimits(p, id, want)
	}
	b.reopen(func() {})
	b.requireLimits(p, id, demand("", "", "250m", "48Mi"))
	want := demand("100m", "32Mi", "500m", "64Mi")
	require.NoError(b, b.updater().UpdateResources(b.Context(), id, want), "%s; %s", ruleUpdate, ruleDurable)
	b.requireLimits(p, id, want)
}

func updateTakesLimitsAway(b *bench) {
	u := b.updater()
	p, id := b.limited(demand("100m", "32Mi", "500m", "64Mi"))
	for _, want := range []v1.ResourceRequirements{
		demand("100m", "32Mi", "500m", ""),
		demand("100m", "32Mi", "", ""),
		{},
		demand("100m", "32Mi", "", "64Mi"),
	} {
		require.NoError(b, u.UpdateResources(b.Context(), id, want), ruleUpdate)
		b.requireLimits(p, id, want)
	}
}

func updateNeedsARunningContainer(b *bench) {
	u := b.updater()
	p := b.pod("main")
	id := b.create(p, b.sandbox(p, 0), "main", 0, Behaviour{})
	want := demand("100m", "32Mi", "500m", "64Mi")
	require.Error(b, u.UpdateResources(b.Context(), id, want), "%s: it is created", ruleUpdateRuns)
	b.start(id)
	require.NoError(b, u.UpdateResources(b.Context(), id, want), ruleUpdate)
	require.NoError(b, b.rt.StopContainer(b.Context(), id, 0), ruleStop)
	require.Error(b, u.UpdateResources(b.Context(), id, want), "%s: it is exited", ruleUpdateRuns)
	require.NoError(b, b.rt.RemoveContainer(b.Context(), id), ruleRemove)
	require.ErrorIs(b, u.UpdateResources(b.Context(), id, want), runtime.ErrNotFound, ruleNotFound)
}

func memoryUsageIsTold(b *bench) {
	m, ok := b.rt.(runtime.MemoryMeter)
	if !ok {
		b.Skip("the backend is no runtime.MemoryMeter")
	}
	const most = 1 << 30
	p, id := b.limited(demand("", "", "", "1Gi"))
	used, err := m.MemoryUsage(b.Context(), id)
	require.NoError(b, err, ruleMemory)
	require.True(b, 0 < used && used < most, "%s: %d bytes of a limit of %d", ruleMemory, used, most)
	require.NoError(b, b.rt.StopContainer(b.Context(), id, 0), ruleStop)
	_, err = m.MemoryUsage(b.Context(), id)
	require.Error(b, err, "%s: it is exited", ruleMemory)
	b.mustState(p, id, runtime.StateExited, ruleStop)
	require.NoError(b, b.rt.RemoveContainer(b.Context(), id), ruleRemove)
	_, err = m.MemoryUsage(b.Context(), id)
	require.ErrorIs(b, err, runtime.ErrNotFound, ruleNotFound)
}

// awaitStats waits for the first stats of a container.
func (b *bench) awaitStats(id runtime.ContainerID) *stats.Container {
	b.Helper()
	var st *stats.Container
	b.await(ruleStats, "the stats of "+id.String(), func() bool {
		var err error
		st, err = b.statsReader().ContainerStats(b.Context(), id)
		return err == nil
	})
	return st
}

// checkStats checks the rules for the stats of a running container.
func (b *bench) checkStats(st *stats.Container, id runtime.ContainerID, name string) {
	b.Helper()
	require.Equal(b, id, st.ID, ruleStats)
	require.Equal(b, name, st.Name, ruleStats)
	require.False(b, st.CPU.At.IsZero() && st.Memory.At.IsZero(), "%s: neither CPU nor memory is told", ruleStats)
	for _, at := range []time.Time{st.CPU.At, st.Memory.At, st.WritableLayer.At} {
		require.False(b, at.After(time.Now().Add(time.Second)), "%s: measured at %v, which is to come", ruleStats, at)
	}
	if st.Memory.Usage > 0 {
		require.LessOrEqual(b, st.Memory.WorkingSet, st.Memory.Usage, ruleStatsMemory)
	}
}

func statsOfOneContainer(b *bench) {
	s := b.statsReader()
	p := b.pod("main")
	id := b.run(p, b.sandbox(p, 0), "main", 0, Behaviour{})
	first := b.awaitStats(id)
	b.checkStats(first, id, "main")
	time.Sleep(2 * b.h.Unit)
	second, err := s.ContainerStats(b.Context(), id)
	require.NoError(b, err, ruleStats)
	b.checkStats(second, id, "main")
	require.False(b, second.CPU.At.Before(first.CPU.At), "%s: it was measured before it was measured first", ruleStatsCPU)
	require.GreaterOrEqual(b, second.CPU.UsageNanoseconds, first.CPU.UsageNanoseconds, ruleStatsCPU)
	b.reopen(func() {})
	b.checkStats(b.awaitStats(id), id, "main")
}

func statsOfAllPods(b *bench) {
	p, q := b.pod("main", "other", "done"), b.pod("main")
	sb := b.sandbox(p, 0)
	main, other := b.run(p, sb, "main", 0, Behaviour{}), b.run(p, sb, "other", 0, Behaviour{})
	done := b.create(p, sb, "done", 0, Behaviour{ExitAfter: AtOnce})
	b.start(done)
	b.awaitExit(p, done)
	alone := b.run(q, b.sandbox(q, 0), "main", 0, Behaviour{})
	for _, id := range []runtime.ContainerID{main, other, alone} {
		b.awaitStats(id)
	}
	all, err := b.statsReader().ListStats(b.Context())
	require.NoError(b, err, ruleStatsAll)
	for _, want := range []struct {
		pod *testPod
		ids []runtime.ContainerID
	}{{p, []runtime.ContainerID{main, other}}, {q, []runtime.ContainerID{alone}}} {
		mine := slices.DeleteFunc(slices.Clone(all), func(st stats.Pod) bool { return st.UID != want.pod.UID })
		require.Len(b, mine, 1, "%s: one entry per pod", ruleStatsAll)
		st := &mine[0]
		require.Equal(b, want.pod.Namespace+"/"+want.pod.Name, st.Namespace+"/"+st.Name, ruleStatsAll)
		require.Len(b, st.Containers, len(want.ids), "%s: %+v", ruleStatsAll, st.Containers)
		for i, id := range want.ids {
			b.checkStats(&st.Containers[i], id, []string{"main", "other"}[i])
		}
	}
}

func statsNeedARunningContainer(b *bench) {
	s := b.statsReader()
	p := b.pod("main")
	id := b.run(p, b.sandbox(p, 0), "main", 0, Behaviour{})
	require.NoError(b, b.rt.StopContainer(b.Context(), id, 0), ruleStop)
	_, err := s.ContainerStats(b.Context(), id)
	require.Error(b, err, "%s: it is exited", ruleStatsOne)
	require.NotErrorIs(b, err, runtime.ErrNotFound, "%s: it is exited", ruleStatsOne)
	require.NoError(b, b.rt.RemoveContainer(b.Context(), id), ruleRemove)
	_, err = s.ContainerStats(b.Context(), id)
	require.ErrorIs(b, err, runtime.ErrNotFound, ruleStatsOne)
}
