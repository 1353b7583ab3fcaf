// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

func sandboxCases() []testCase {
	return []testCase{
		{"SandboxIsReady", sandboxIsReady},
		{"SandboxStopKillsAtOnce", sandboxStopKillsAtOnce},
		{"SandboxStopTwice", sandboxStopTwice},
		{"SandboxAttempts", sandboxAttempts},
		{"SandboxRemoveTakesItsRecords", sandboxRemoveTakesItsRecords},
		{"SandboxOutlivesItsContainers", sandboxOutlivesItsContainers},
	}
}

func sandboxIsReady(b *bench) {
	p := b.pod("main")
	before := time.Now()
	sb := b.sandbox(p, 0)
	st := b.status(p)
	require.Len(b, st.Sandboxes, 1, ruleRunSandbox)
	got := st.Sandboxes[0]
	require.Equal(b, sb, got.ID, ruleSandboxMet)
	require.True(b, got.Ready, ruleRunSandbox)
	require.EqualValues(b, 0, got.Attempt, ruleSandboxMet)
	require.Equal(b, p.Spec.HostNetwork, got.HostNetwork, ruleSandboxMet)
	require.False(b, got.CreatedAt.Before(before.Add(-time.Second)) || got.CreatedAt.After(time.Now().Add(time.Second)), ruleTimes)
	if got.NetworkKnown {
		require.NotEmpty(b, got.IPs, impliedIP)
	}
	require.DirExists(b, p.logs, ruleLogDir)
}

func sandboxStopKillsAtOnce(b *bench) {
	p := b.pod("main", "other", "done", "made")
	sb := b.sandbox(p, 0)
	ids := []runtime.ContainerID{
		b.run(p, sb, "main", 0, Behaviour{IgnoreTerm: true, Spawn: true}),
		b.run(p, sb, "other", 0, Behaviour{TermAfter: longGrace}),
	}
	done := b.create(p, sb, "done", 0, Behaviour{ExitAfter: AtOnce, ExitCode: 6})
	b.start(done)
	b.awaitExit(p, done)
	made := b.create(p, sb, "made", 0, Behaviour{})

	begin := time.Now()
	require.NoError(b, b.rt.StopSandbox(b.Context(), sb), ruleSandStop)
	require.Less(b, time.Since(begin), b.h.Patience, ruleSandStop)
	require.Nil(b, b.status(p).Current(), ruleSandStop)
	for _, id := range ids {
		require.EqualValues(b, 137, b.mustState(p, id, runtime.StateExited, ruleSandStop).ExitCode, ruleSandStop)
	}
	require.EqualValues(b, 6, b.mustState(p, done, runtime.StateExited, ruleState).ExitCode, ruleExit)
	require.Error(b, b.rt.StartContainer(b.Context(), made), impliedStopped)
	require.NotEqual(b, runtime.StateRunning, b.container(p, made).State, impliedStopped)
}

func sandboxStopTwice(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	require.NoError(b, b.rt.StopSandbox(b.Context(), sb), ruleSandStop)
	err := b.rt.StopSandbox(b.Context(), sb)
	require.True(b, gone(err), "%s: %v", ruleIdempotent, err)
	b.reopen(func() {})
	err = b.rt.StopSandbox(b.Context(), sb)
	require.True(b, gone(err), "%s: %v", ruleIdempotent, err)
	require.Nil(b, b.status(p).Current(), ruleSandStop)
}

func sandboxAttempts(b *bench) {
	p := b.pod("main")
	first := b.sandbox(p, 0)
	old := b.run(p, first, "main", 0, Behaviour{})
	require.NoError(b, b.rt.StopSandbox(b.Context(), first), ruleSandStop)
	second := b.sandbox(p, 1)
	require.NotEqual(b, first, second, ruleSandboxMet)
	id := b.run(p, second, "main", 1, Behaviour{})

	st := b.status(p)
	require.Len(b, st.Sandboxes, 2, ruleDurable)
	require.Equal(b, second, st.Current().ID, ruleOrder)
	require.EqualValues(b, 1, st.Current().Attempt, ruleSandboxMet)
	require.Equal(b, id, st.Active("main").ID, ruleRoundTrip)
	b.mustState(p, old, runtime.StateExited, ruleSandStop)

	require.NoError(b, b.rt.RemoveSandbox(b.Context(), first), ruleRemove)
	b.mustState(p, id, runtime.StateRunning, impliedApart)
	require.Nil(b, b.container(p, old), ruleRemoveSand)
}

func sandboxRemoveTakesItsRecords(b *bench) {
	p, q := b.pod("main", "done"), b.pod("main")
	sb, other := b.sandbox(p, 0), b.sandbox(q, 0)
	b.run(p, sb, "main", 0, Behaviour{IgnoreTerm: true})
	b.create(p, sb, "done", 0, Behaviour{})
	neighbour := b.run(q, other, "main", 0, Behaviour{})

	begin := time.Now()
	require.NoError(b, b.rt.RemoveSandbox(b.Context(), sb), ruleRemove)
	require.Less(b, time.Since(begin), b.h.Patience, ruleRemove)
	st := b.status(p)
	require.Empty(b, st.Sandboxes, ruleRemove)
	require.Empty(b, st.Containers, ruleRemoveSand)
	require.NotContains(b, b.list(runtime.ListOptions{}), p.UID, ruleList)
	b.mustState(q, neighbour, runtime.StateRunning, impliedApart)
}

func sandboxOutlivesItsContainers(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{ExitAfter: AtOnce})
	b.awaitExit(p, id)
	require.NotNil(b, b.status(p).Current(), impliedIdle)
	require.NoError(b, b.rt.RemoveContainer(b.Context(), id), ruleRemove)
	require.NotNil(b, b.status(p).Current(), impliedIdle)
	b.run(p, sb, "main", 1, Behaviour{})
}
