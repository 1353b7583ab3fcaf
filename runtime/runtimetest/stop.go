// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

func stopCases() []testCase {
	return []testCase{
		{"StopIsPolite", stopIsPolite},
		{"StopKillsAfterGrace", stopKillsAfterGrace},
		{"StopWithoutGraceKills", stopWithoutGraceKills},
		{"StopTwice", stopTwice},
		{"StopOfExitedKeepsTheExit", stopOfExitedKeepsTheExit},
		{"StopOfCreated", stopOfCreated},
		{"StartAfterStopOfCreatedIsRefused", startAfterStopOfCreatedIsRefused},
		{"CancelledStartNeverHappensAfterStop", cancelledStartNeverHappensAfterStop},
		{"CancelledStopIsResumable", cancelledStopIsResumable},
		{"StopSeesOwnExit", stopSeesOwnExit},
		{"NothingOutlivesItsContainer", nothingOutlivesItsContainer},
	}
}

func stopIsPolite(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{TermAfter: 2 * b.h.Unit, TermCode: 7})
	begin := time.Now()
	require.NoError(b, b.rt.StopContainer(b.Context(), id, longGrace), ruleStop)
	took := time.Since(begin)
	c := b.mustState(p, id, runtime.StateExited, ruleStop)
	require.EqualValues(b, 7, c.ExitCode, "%s: it was given time to exit by itself", ruleGrace)
	require.GreaterOrEqual(b, took, b.h.Unit, ruleGrace)
	require.Less(b, took, 2*b.h.Unit+b.h.Patience, "%s: it waits no longer than the container needs", ruleGrace)
}

func stopKillsAfterGrace(b *bench) {
	const grace = time.Second // the unit of the CRI
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{IgnoreTerm: true})
	begin := time.Now()
	require.NoError(b, b.rt.StopContainer(b.Context(), id, grace), ruleStop)
	took := time.Since(begin)
	c := b.mustState(p, id, runtime.StateExited, ruleStop)
	require.EqualValues(b, 137, c.ExitCode, "%s: 128+SIGKILL", ruleExit)
	require.True(b, c.Failed(), ruleExit)
	require.GreaterOrEqual(b, took, grace*9/10, "%s: it was killed before its time", ruleGrace)
	require.Less(b, took, grace+b.h.Patience, ruleGrace)
}

func stopWithoutGraceKills(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{IgnoreTerm: true, Spawn: true})
	begin := time.Now()
	require.NoError(b, b.rt.StopContainer(b.Context(), id, 0), ruleStop)
	require.Less(b, time.Since(begin), b.h.Patience, ruleGrace)
	require.EqualValues(b, 137, b.mustState(p, id, runtime.StateExited, ruleStop).ExitCode, ruleExit)
}

func stopTwice(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{TermCode: 7})
	require.NoError(b, b.rt.StopContainer(b.Context(), id, longGrace), ruleStop)
	was := b.container(p, id)
	err := b.rt.StopContainer(b.Context(), id, longGrace)
	require.True(b, gone(err), "%s: %v", ruleIdempotent, err)
	require.Equal(b, *was, *b.container(p, id), "%s: the second stop changed the record", ruleIdempotent)
}

func stopOfExitedKeepsTheExit(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.create(p, sb, "main", 0, Behaviour{ExitAfter: AtOnce, ExitCode: 4})
	b.start(id)
	was := b.awaitExit(p, id)
	err := b.rt.StopContainer(b.Context(), id, 0)
	require.True(b, gone(err), "%s: %v", ruleIdempotent, err)
	require.Equal(b, *was, *b.container(p, id), "%s: a stop after the exit changed the record", ruleExit)
}

func stopOfCreated(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.create(p, sb, "main", 0, Behaviour{})
	begin := time.Now()
	require.NoError(b, b.rt.StopContainer(b.Context(), id, longGrace), ruleStopMade)
	require.Less(b, time.Since(begin), b.h.Patience, "%s: there is nothing to wait for", ruleStopMade)
	c := b.container(p, id)
	require.NotNil(b, c, ruleStopMade)
	require.Contains(b, []runtime.State{runtime.StateCreated, runtime.StateExited}, c.State, ruleStopMade)
	b.reopen(func() {})
	require.Equal(b, c.State, b.container(p, id).State, ruleDurable)
}

func startAfterStopOfCreatedIsRefused(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.create(p, sb, "main", 0, Behaviour{})
	require.NoError(b, b.rt.StopContainer(b.Context(), id, 0), ruleStopMade)
	require.Error(b, b.rt.StartContainer(b.Context(), id), ruleStopMade)
	require.NotEqual(b, runtime.StateRunning, b.container(p, id).State, ruleStopMade)
	b.reopen(func() {})
	require.Error(b, b.rt.StartContainer(b.Context(), id), "%s; %s", ruleStopMade, ruleDurable)
}

// cancelledStartNeverHappensAfterStop cancels starts at various moments and stops the container.
// The cancelled start must have no effect afterwards.
func cancelledStartNeverHappensAfterStop(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	var ids []runtime.ContainerID
	for n := range int32(8) {
		id := b.create(p, sb, "main", n, Behaviour{})
		ids = append(ids, id)
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = b.rt.StartContainer(ctx, id) }) // both results are valid
		time.Sleep(time.Duration(n) * b.h.Unit / 100)
		cancel()
		wg.Wait()
		require.NoError(b, b.rt.StopContainer(b.Context(), id, 0), "%s; %s", ruleStop, ruleStopMade)
		require.NotEqual(b, runtime.StateRunning, b.container(p, id).State, ruleStopMade)
	}
	time.Sleep(5 * b.h.Unit)
	for _, id := range ids {
		c := b.container(p, id)
		require.Contains(b, []runtime.State{runtime.StateCreated, runtime.StateExited}, c.State, ruleStopMade)
	}
}

func cancelledStopIsResumable(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{IgnoreTerm: true})
	ctx, cancel := context.WithTimeout(b.Context(), 2*b.h.Unit)
	defer cancel()
	begin := time.Now()
	err := b.rt.StopContainer(ctx, id, longGrace)
	require.ErrorIs(b, err, context.DeadlineExceeded, ruleStopCtx)
	require.Less(b, time.Since(begin), 2*b.h.Unit+b.h.Patience, ruleStopCtx)
	b.mustState(p, id, runtime.StateRunning, ruleStopCtx)
	require.NoError(b, b.rt.StopContainer(b.Context(), id, 0), "%s: a second stop finishes", ruleIdempotent)
	require.EqualValues(b, 137, b.mustState(p, id, runtime.StateExited, ruleStop).ExitCode, ruleGrace)
}

// stopSeesOwnExit checks the status of a container that exits by itself during its grace period: the
// exit code is the container's own.
func stopSeesOwnExit(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{IgnoreTerm: true, ExitAfter: 5 * b.h.Unit, ExitCode: 11})
	require.NoError(b, b.rt.StopContainer(b.Context(), id, longGrace), ruleStop)
	require.EqualValues(b, 11, b.mustState(p, id, runtime.StateExited, ruleStop).ExitCode, ruleExit)
}

// nothingOutlivesItsContainer ends containers in every way while a child process keeps printing,
// and checks that their logs do not grow afterwards.
func nothingOutlivesItsContainer(b *bench) {
	p, q := b.pod("exits", "politely", "killed"), b.pod("main")
	sb, other := b.sandbox(p, 0), b.sandbox(q, 0)
	exits := b.run(p, sb, "exits", 0, Behaviour{Spawn: true, ExitAfter: 3 * b.h.Unit})
	politely := b.run(p, sb, "politely", 0, Behaviour{Spawn: true})
	killed := b.run(p, sb, "killed", 0, Behaviour{Spawn: true, IgnoreTerm: true})
	inSandbox := b.run(q, other, "main", 0, Behaviour{Spawn: true})
	require.NoError(b, b.rt.StopContainer(b.Context(), politely, longGrace), ruleStop)
	require.NoError(b, b.rt.StopContainer(b.Context(), killed, 0), ruleStop)
	require.NoError(b, b.rt.StopSandbox(b.Context(), other), ruleSandStop)
	b.awaitExit(p, exits)

	paths := map[runtime.ContainerID]string{inSandbox: b.container(q, inSandbox).LogPath}
	for _, id := range []runtime.ContainerID{exits, politely, killed} {
		paths[id] = b.container(p, id).LogPath
	}
	time.Sleep(10 * b.h.Unit) // output of the container may be written a moment later
	lines := map[runtime.ContainerID]int{}
	for id, path := range paths {
		lines[id] = len(b.readLog(path))
	}
	time.Sleep(3*b.h.Unit + 300*time.Millisecond)
	for id, path := range paths {
		require.Len(b, b.readLog(path), lines[id], "%s: %s", impliedAlone, path)
	}
}
