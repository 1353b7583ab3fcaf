// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

func durableCases() []testCase {
	return []testCase{
		{"ReopenKeepsCreated", reopenKeepsCreated},
		{"ReopenKeepsRunning", reopenKeepsRunning},
		{"ReopenReportsExitMeanwhile", reopenReportsExitMeanwhile},
		{"ReopenKeepsExited", reopenKeepsExited},
		{"ReopenKeepsStoppedAndRemoved", reopenKeepsStoppedAndRemoved},
		{"ReopenInTheMiddleOfAStop", reopenInTheMiddleOfAStop},
		{"ReopenManyTimes", reopenManyTimes},
	}
}

func reopenKeepsCreated(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.create(p, sb, "main", 0, Behaviour{ExitAfter: AtOnce, ExitCode: 5})
	b.reopen(func() { time.Sleep(b.h.Unit) })
	b.mustState(p, id, runtime.StateCreated, ruleCreated)
	cur := b.status(p).Current()
	require.NotNil(b, cur, "%s: the sandbox was ready", ruleDurable)
	require.Equal(b, sb, cur.ID, ruleDurable)
	b.start(id) // with the spec in the record
	require.EqualValues(b, 5, b.awaitExit(p, id).ExitCode, ruleDurable)
}

func reopenKeepsRunning(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{TermCode: 7})
	was := b.container(p, id)
	b.reopen(func() { time.Sleep(b.h.Unit) })
	now := b.mustState(p, id, runtime.StateRunning, ruleDurable)
	require.True(b, was.StartedAt.Equal(now.StartedAt), "%s: StartedAt was %v, is %v", ruleDurable, was.StartedAt, now.StartedAt)
	require.True(b, was.CreatedAt.Equal(now.CreatedAt), "%s: CreatedAt was %v, is %v", ruleDurable, was.CreatedAt, now.CreatedAt)
	require.Error(b, b.rt.StartContainer(b.Context(), id), "%s: it is running already", ruleStart)
	require.NoError(b, b.rt.StopContainer(b.Context(), id, longGrace), ruleStop)
	require.EqualValues(b, 7, b.mustState(p, id, runtime.StateExited, ruleStop).ExitCode, "%s: the stop was polite", ruleGrace)
}

func reopenReportsExitMeanwhile(b *bench) {
	p := b.pod("main", "clean")
	sb := b.sandbox(p, 0)
	runs := 10 * b.h.Unit
	bad := b.run(p, sb, "main", 0, Behaviour{ExitAfter: runs, ExitCode: 42})
	good := b.run(p, sb, "clean", 0, Behaviour{ExitAfter: runs})
	var back time.Time
	b.reopen(func() {
		time.Sleep(3 * runs)
		back = time.Now()
	})
	c := b.awaitExit(p, bad)
	require.EqualValues(b, 42, c.ExitCode, "%s: it exited while no value was there to see it", ruleDurable)
	require.Equal(b, runtime.ReasonError, c.Reason, ruleExit)
	require.GreaterOrEqual(b, c.FinishedAt.Sub(c.StartedAt), runs/5, ruleTimes) // a backend may record a start late
	require.True(b, c.FinishedAt.Before(back), "%s: FinishedAt %v is when it exited, not when it was found (%v)", ruleTimes, c.FinishedAt, back)
	c = b.awaitExit(p, good)
	require.EqualValues(b, 0, c.ExitCode, ruleDurable)
	require.Equal(b, runtime.ReasonCompleted, c.Reason, ruleExit)
}

func reopenKeepsExited(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.create(p, sb, "main", 0, Behaviour{ExitAfter: AtOnce, ExitCode: 9})
	b.start(id)
	was := b.awaitExit(p, id)
	b.reopen(func() {})
	now := b.mustState(p, id, runtime.StateExited, ruleDurable)
	require.EqualValues(b, 9, now.ExitCode, ruleDurable)
	require.Equal(b, was.Reason, now.Reason, ruleDurable)
	require.True(b, was.StartedAt.Equal(now.StartedAt) && was.FinishedAt.Equal(now.FinishedAt),
		"%s: ran %v to %v, now %v to %v", ruleDurable, was.StartedAt, was.FinishedAt, now.StartedAt, now.FinishedAt)
}

func reopenKeepsStoppedAndRemoved(b *bench) {
	p, q := b.pod("main", "other"), b.pod("main")
	sb := b.sandbox(p, 0)
	killed := b.run(p, sb, "main", 0, Behaviour{IgnoreTerm: true})
	removed := b.run(p, sb, "other", 0, Behaviour{})
	require.NoError(b, b.rt.StopContainer(b.Context(), killed, 0), ruleStop)
	require.NoError(b, b.rt.RemoveContainer(b.Context(), removed), ruleRemove)
	require.NoError(b, b.rt.StopSandbox(b.Context(), sb), ruleSandStop)
	require.NoError(b, b.rt.RemoveSandbox(b.Context(), b.sandbox(q, 0)), ruleRemove)
	b.reopen(func() {})
	require.EqualValues(b, 137, b.mustState(p, killed, runtime.StateExited, ruleDurable).ExitCode, ruleDurable)
	require.Nil(b, b.container(p, removed), "%s: it was removed", ruleDurable)
	require.False(b, b.status(p).Sandboxes[0].Ready, "%s: the sandbox was stopped", ruleDurable)
	require.Empty(b, b.status(q).Sandboxes, "%s: the sandbox was removed", ruleDurable)
}

func reopenInTheMiddleOfAStop(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{IgnoreTerm: true})
	ctx, cancel := context.WithCancel(b.Context())
	old := b.rt
	var wg sync.WaitGroup
	wg.Go(func() { _ = old.StopContainer(ctx, id, longGrace) })
	time.Sleep(b.h.Unit)
	cancel() // similar to the death of a process during the call
	wg.Wait()
	b.reopen(func() {})
	b.mustState(p, id, runtime.StateRunning, ruleStopCtx)
	require.NoError(b, b.rt.StopContainer(b.Context(), id, 0), ruleStop)
	require.EqualValues(b, 137, b.mustState(p, id, runtime.StateExited, ruleStop).ExitCode, ruleGrace)
}

func reopenManyTimes(b *bench) {
	p := b.pod("main", "side")
	sb := b.sandbox(p, 0)
	side := b.run(p, sb, "side", 0, Behaviour{})
	for n := range int32(5) {
		id := b.create(p, sb, "main", n, Behaviour{ExitAfter: b.h.Unit, ExitCode: n})
		b.reopen(func() {})
		b.start(id)
		b.reopen(func() {})
		require.Equal(b, n, b.awaitExit(p, id).ExitCode, ruleDurable)
	}
	b.mustState(p, side, runtime.StateRunning, ruleDurable)
	require.Len(b, b.status(p).Containers, 6, ruleDurable)
}
