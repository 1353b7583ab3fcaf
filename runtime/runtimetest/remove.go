// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

func removeCases() []testCase {
	return []testCase{
		{"RemoveStopsFirst", removeStopsFirst},
		{"RemoveTwice", removeTwice},
		{"RemoveKeepsLogs", removeKeepsLogs},
		{"OrphanCleanUp", orphanCleanUp},
	}
}

func removeStopsFirst(b *bench) {
	p := b.pod("main", "other")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{IgnoreTerm: true, Spawn: true})
	other := b.run(p, sb, "other", 0, Behaviour{})
	begin := time.Now()
	require.NoError(b, b.rt.RemoveContainer(b.Context(), id), ruleRemove)
	require.Less(b, time.Since(begin), b.h.Patience, ruleRemove)
	require.Nil(b, b.container(p, id), "%s: the record is still there", ruleRemove)
	b.mustState(p, other, runtime.StateRunning, impliedApart)
}

func removeTwice(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.create(p, sb, "main", 0, Behaviour{})
	ctx := b.Context()
	require.NoError(b, b.rt.RemoveContainer(ctx, id), ruleRemove)
	require.NoError(b, b.rt.RemoveSandbox(ctx, sb), ruleRemove)
	for what, err := range map[string]error{
		"RemoveContainer": b.rt.RemoveContainer(ctx, id),
		"StopContainer":   b.rt.StopContainer(ctx, id, longGrace),
		"RemoveSandbox":   b.rt.RemoveSandbox(ctx, sb),
		"StopSandbox":     b.rt.StopSandbox(ctx, sb),
	} {
		require.True(b, gone(err), "%s: %s of what is removed: %v", ruleIdempotent, what, err)
	}
	require.NotContains(b, b.list(runtime.ListOptions{}), p.UID, ruleList)

	again := b.sandbox(p, 0)
	require.NotEqual(b, sb, again, ruleSandboxMet)
	require.NotEqual(b, id, b.create(p, again, "main", 0, Behaviour{}), ruleID)
}

func removeKeepsLogs(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	spec := b.spec(p, "main", 0, Behaviour{Print: []string{"last words"}, ExitAfter: AtOnce})
	id := b.createSpec(sb, spec)
	b.start(id)
	b.awaitExit(p, id)
	b.awaitLine(spec.LogPath, "last words")
	require.NoError(b, b.rt.RemoveContainer(b.Context(), id), ruleRemove)
	require.Equal(b, []string{"last words"}, output(b.readLog(spec.LogPath), "stdout"), ruleKeepLogs)
}

// orphanCleanUp stops and removes the containers and sandboxes of a dead agent, by the result of List
// alone.
func orphanCleanUp(b *bench) {
	p := b.pod("main", "done", "made")
	sb := b.sandbox(p, 0)
	b.run(p, sb, "main", 0, Behaviour{IgnoreTerm: true})
	b.start(b.create(p, sb, "done", 0, Behaviour{ExitAfter: AtOnce}))
	b.create(p, sb, "made", 0, Behaviour{})
	b.reopen(func() {})

	st := b.list(runtime.ListOptions{})[p.UID]
	require.NotNil(b, st, ruleList)
	require.Len(b, st.Containers, 3, ruleList)
	require.Len(b, st.Sandboxes, 1, ruleList)
	for _, c := range st.Running() {
		require.NoError(b, b.rt.StopContainer(b.Context(), c.ID, b.h.Unit), ruleStop)
	}
	for _, s := range st.Sandboxes {
		require.NoError(b, b.rt.StopSandbox(b.Context(), s.ID), ruleSandStop)
	}
	for _, c := range st.Containers {
		require.NoError(b, b.rt.RemoveContainer(b.Context(), c.ID), ruleRemove)
	}
	for _, s := range st.Sandboxes {
		require.NoError(b, b.rt.RemoveSandbox(b.Context(), s.ID), ruleRemove)
	}
	require.NotContains(b, b.list(runtime.ListOptions{}), p.UID, ruleList)
	require.Empty(b, b.status(p).Containers, ruleUnknownUID)
}
