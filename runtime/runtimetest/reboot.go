// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

func rebootCases() []testCase {
	return []testCase{{"Reboot", reboot}}
}

func reboot(b *bench) {
	if b.s.Reboot == nil {
		b.Skip("the harness offers no reboot")
	}
	p := b.pod("main", "done", "made")
	sb := b.sandbox(p, 0)
	ran := b.run(p, sb, "main", 0, Behaviour{})
	done := b.create(p, sb, "done", 0, Behaviour{ExitAfter: AtOnce, ExitCode: 8})
	b.start(done)
	b.awaitExit(p, done)
	made := b.create(p, sb, "made", 0, Behaviour{})
	b.rt = b.s.Reboot(b)

	st := b.status(p)
	for _, s := range st.Sandboxes {
		require.False(b, s.Ready, impliedReboot)
	}
	require.Contains(b, []runtime.State{runtime.StateExited, runtime.StateUnknown}, b.container(p, ran).State, impliedReboot)
	require.EqualValues(b, 8, b.mustState(p, done, runtime.StateExited, impliedReboot).ExitCode, ruleDurable)
	require.Contains(b, []runtime.State{runtime.StateCreated, runtime.StateExited}, b.container(p, made).State, impliedReboot)
	require.NoError(b, b.rt.StopContainer(b.Context(), ran, 0), ruleStop)
	b.mustState(p, ran, runtime.StateExited, ruleStop)

	next := b.sandbox(p, st.Sandboxes[0].Attempt+1)
	id := b.run(p, next, "main", 1, Behaviour{})
	st = b.status(p)
	require.Equal(b, next, st.Current().ID, impliedReboot)
	require.Equal(b, id, st.Active("main").ID, impliedReboot)
	require.Nil(b, st.Active("done"), impliedReboot)
}
