// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

func lifecycleCases() []testCase {
	return []testCase{
		{"CreatedIsNotRunning", createdIsNotRunning},
		{"RunAndExit", runAndExit},
		{"ExitCodes", exitCodes},
		{"RestartNumbering", restartNumbering},
		{"SecondStartIsRefused", secondStartIsRefused},
		{"FailedStartEndsIt", failedStartEndsIt},
		{"NotFound", notFound},
		{"RecordRoundTrip", recordRoundTrip},
		{"StatusBelongsToTheCaller", statusBelongsToTheCaller},
	}
}

func createdIsNotRunning(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.create(p, sb, "main", 0, Behaviour{Print: []string{"ran"}})
	time.Sleep(b.h.Unit)
	b.mustState(p, id, runtime.StateCreated, ruleCreated)
	require.Empty(b, b.readLog(b.spec(p, "main", 0, Behaviour{}).LogPath), ruleCreated)
}

func runAndExit(b *bench) {
	p := b.pod("main")
	before := time.Now()
	sb := b.sandbox(p, 0)
	runs := 10 * b.h.Unit
	id := b.create(p, sb, "main", 0, Behaviour{ExitAfter: runs})
	begin := time.Now()
	b.start(id)
	if c := b.container(p, id); time.Since(begin) < runs {
		require.NotNil(b, c, ruleStart)
		require.Equal(b, runtime.StateRunning.String(), c.State.String(), "%s: %+v", ruleStart, *c)
	}
	c := b.awaitExit(p, id)
	require.EqualValues(b, 0, c.ExitCode, ruleExit)
	require.Equal(b, runtime.ReasonCompleted, c.Reason, ruleExit)
	require.False(b, c.StartedAt.IsZero() || c.StartedAt.Before(c.CreatedAt), "%s: %+v", ruleTimes, *c)
	// Backends may round times to a second.
	require.False(b, c.CreatedAt.Before(before.Add(-time.Second)) || c.FinishedAt.After(time.Now().Add(time.Second)), "%s: %+v", ruleTimes, *c)
	// On a busy machine a backend may record a start late.
	require.GreaterOrEqual(b, c.FinishedAt.Sub(c.StartedAt), runs/5, ruleTimes)
	require.False(b, c.Failed(), ruleExit)
	time.Sleep(b.h.Unit)
	b.mustState(p, id, runtime.StateExited, ruleState)
}

func exitCodes(b *bench) {
	p := b.pod("c0", "c1", "c42", "c255")
	sb := b.sandbox(p, 0)
	for _, code := range []int32{0, 1, 42, 255} {
		id := b.create(p, sb, fmt.Sprintf("c%d", code), 0, Behaviour{ExitAfter: AtOnce, ExitCode: code})
		b.start(id)
		c := b.awaitExit(p, id)
		require.Equal(b, code, c.ExitCode, ruleExit)
		want := runtime.ReasonError
		if code == 0 {
			want = runtime.ReasonCompleted
		}
		require.Equal(b, want, c.Reason, ruleExit)
	}
}

func restartNumbering(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	seen := map[runtime.ContainerID]bool{}
	for n := range int32(3) {
		id := b.create(p, sb, "main", n, Behaviour{ExitAfter: AtOnce, ExitCode: n})
		require.False(b, seen[id], "%s: %s", ruleID, id)
		seen[id] = true
		b.start(id)
		b.awaitExit(p, id)
		require.Equal(b, id, b.status(p).Latest("main").ID, ruleOrder)
	}
	st := b.status(p)
	require.Len(b, st.Containers, 3, ruleDurable)
	for i, c := range st.Containers { // newest first
		require.EqualValues(b, 2-i, c.RestartCount, "%s; %s", ruleOrder, ruleRoundTrip)
		require.EqualValues(b, 2-i, c.ExitCode, ruleExit)
	}
}

func secondStartIsRefused(b *bench) {
	p := b.pod("main", "done")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{Print: []string{"once"}})
	was := b.container(p, id)
	require.Error(b, b.rt.StartContainer(b.Context(), id), "%s: it is running", ruleStart)
	now := b.mustState(p, id, runtime.StateRunning, ruleStart)
	require.Equal(b, was.StartedAt, now.StartedAt, "%s: the refused start changed it", ruleStart)
	time.Sleep(b.h.Unit)
	require.Equal(b, []string{"once", "ready"}, output(b.readLog(b.spec(p, "main", 0, Behaviour{}).LogPath), "stdout"), ruleStart)

	done := b.create(p, sb, "done", 0, Behaviour{ExitAfter: AtOnce, ExitCode: 3})
	b.start(done)
	b.awaitExit(p, done)
	require.Error(b, b.rt.StartContainer(b.Context(), done), "%s: it has exited", ruleStart)
	require.EqualValues(b, 3, b.mustState(p, done, runtime.StateExited, ruleState).ExitCode, ruleStart)
}

func failedStartEndsIt(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	spec := b.spec(p, "main", 0, Behaviour{CannotStart: true})
	spec.Env = append(spec.Env, runtime.EnvVar{Name: "PASSWORD", Value: "correct-horse"})
	id := b.createSpec(sb, spec)
	err := b.rt.StartContainer(b.Context(), id)
	require.Error(b, err, impliedNoStart)
	require.NotContains(b, err.Error(), "correct-horse", ruleSecret)
	check := func(why rule) {
		c := b.mustState(p, id, runtime.StateExited, why)
		require.Equal(b, runtime.ReasonStartError, c.Reason, why)
		require.EqualValues(b, runtime.ExitCodeStartError, c.ExitCode, why)
		require.NotEmpty(b, c.Message, why)
		require.NotContains(b, c.Message, "correct-horse", ruleSecret)
		require.True(b, c.StartedAt.IsZero(), "%s: it never started", why)
		require.False(b, c.FinishedAt.Before(c.CreatedAt), "%s: it ended at %v", why, c.FinishedAt)
	}
	check(ruleStartFail)
	b.reopen(func() {})
	check(ruleDurable)
	require.Error(b, b.rt.StartContainer(b.Context(), id), ruleStart)
	// The next try is a new instance beside the exited instance.
	next := b.run(p, sb, "main", 1, Behaviour{})
	b.mustState(p, next, runtime.StateRunning, ruleStart)
	require.Equal(b, next, b.status(p).Latest("main").ID, ruleOrder)
}

func notFound(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.create(p, sb, "main", 0, Behaviour{})
	ctx := b.Context()
	require.NoError(b, b.rt.RemoveContainer(ctx, id), ruleRemove)
	require.ErrorIs(b, b.rt.StartContainer(ctx, id), runtime.ErrNotFound, ruleNotFound)
	require.NoError(b, b.rt.RemoveSandbox(ctx, sb), ruleRemove)
	_, err := b.rt.CreateContainer(ctx, sb, b.spec(p, "main", 0, Behaviour{}))
	require.ErrorIs(b, err, runtime.ErrNotFound, "%s: create in a removed sandbox", ruleNotFound)
	require.Empty(b, b.status(p).Containers, ruleNotFound)

	// IDs that no backend makes.
	for _, bad := range []string{"0123456789abcdef", "../../etc", ""} {
		id := runtime.ContainerID{Runtime: b.rt.Name(), ID: bad}
		require.ErrorIs(b, b.rt.StartContainer(ctx, id), runtime.ErrNotFound, "%s: %q", ruleNotFound, bad)
		for what, err := range map[string]error{
			"StopContainer":   b.rt.StopContainer(ctx, id, 0),
			"RemoveContainer": b.rt.RemoveContainer(ctx, id),
			"StopSandbox":     b.rt.StopSandbox(ctx, runtime.SandboxID(bad)),
			"RemoveSandbox":   b.rt.RemoveSandbox(ctx, runtime.SandboxID(bad)),
		} {
			require.True(b, gone(err), "%s: %s of %q: %v", ruleIdempotent, what, bad, err)
		}
	}
}

func recordRoundTrip(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 3)
	spec := b.spec(p, "main", 7, Behaviour{})
	spec.Hash = "1a2b3c"
	spec.Annotations = map[string]string{"plain": "yes", "empty": "", "odd": "a=b\n\"c\" d\x7f é"}
	id := b.createSpec(sb, spec)

	check := func() {
		b.Helper()
		st := b.status(p)
		require.Equal(b, p.Namespace+"/"+p.Name, st.Namespace+"/"+st.Name, rulePodStatus)
		require.Len(b, st.Sandboxes, 1, rulePodStatus)
		require.Equal(b, sb, st.Sandboxes[0].ID, ruleSandboxMet)
		require.EqualValues(b, 3, st.Sandboxes[0].Attempt, ruleSandboxMet)
		require.Equal(b, p.Spec.HostNetwork, st.Sandboxes[0].HostNetwork, ruleSandboxMet)
		require.Len(b, st.Containers, 1, rulePodStatus)
		c := st.Containers[0]
		require.Equal(b, id, c.ID, ruleRoundTrip)
		require.Equal(b, "main", c.Name, ruleRoundTrip)
		require.Equal(b, sb, c.Sandbox, ruleRoundTrip)
		require.Equal(b, "1a2b3c", c.Hash, ruleRoundTrip)
		require.EqualValues(b, 7, c.RestartCount, ruleRoundTrip)
		require.Equal(b, map[string]string{"plain": "yes", "empty": "", "odd": "a=b\n\"c\" d\x7f é"}, c.Annotations, ruleRoundTrip)
		require.Equal(b, spec.LogPath, c.LogPath, ruleLog)
	}
	check()
	b.reopen(func() {})
	check()
}

func statusBelongsToTheCaller(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.create(p, sb, "main", 0, Behaviour{})
	st := b.status(p)
	st.Containers[0].Annotations["runtimetest/name"] = "changed"
	st.Containers[0].Name = "changed"
	st.Sandboxes[0].Ready = false
	for i := range st.Sandboxes[0].IPs {
		st.Sandboxes[0].IPs[i] = "changed"
	}
	st = b.status(p)
	require.Equal(b, id, st.Latest("main").ID, ruleOwner)
	require.Equal(b, "main", st.Latest("main").Annotations["runtimetest/name"], ruleOwner)
	require.NotNil(b, st.Current(), ruleOwner)
	require.NotContains(b, st.Current().IPs, "changed", ruleOwner)
}
