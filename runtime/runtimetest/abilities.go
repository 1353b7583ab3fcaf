// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

func watchCases() []testCase {
	return []testCase{
		{"WatchBeginsWithEveryPod", watchBeginsWithEveryPod},
		{"WatchHintsAtAnExit", watchHintsAtAnExit},
		{"WatchEndsWithItsContext", watchEndsWithItsContext},
	}
}

func execCases() []testCase {
	return []testCase{
		{"ExecOutputAndCode", execOutputAndCode},
		{"ExecHasTheContainersEnv", execHasTheContainersEnv},
		{"ExecCutsOutput", execCutsOutput},
		{"ExecEndsWithItsContext", execEndsWithItsContext},
		{"ExecCannotRun", execCannotRun},
	}
}

func checkCases() []testCase {
	return []testCase{
		{"CheckAcceptsAPlainPod", checkAcceptsAPlainPod},
		{"CheckRefuses", checkRefuses},
	}
}

func (b *bench) watcher() runtime.Watcher {
	w, ok := b.rt.(runtime.Watcher)
	if !ok {
		b.Skip("the backend is no runtime.Watcher")
	}
	return w
}

func watchBeginsWithEveryPod(b *bench) {
	busy, idle, empty := b.pod("main"), b.pod("main"), b.pod("main")
	b.run(busy, b.sandbox(busy, 0), "main", 0, Behaviour{})
	sb := b.sandbox(idle, 0)
	b.create(idle, sb, "main", 0, Behaviour{})
	require.NoError(b, b.rt.StopSandbox(b.Context(), sb), ruleSandStop)
	b.sandbox(empty, 0)
	for range 2 { // with the value that made the pods, and with a value that finds the pods
		missing := map[types.UID]bool{busy.UID: true, idle.UID: true, empty.UID: true}
		ctx, cancel := context.WithTimeout(b.Context(), b.h.Patience)
		for uid, err := range b.watcher().Watch(ctx) {
			require.NoError(b, err, ruleWatchAll)
			if delete(missing, uid); len(missing) == 0 {
				break
			}
		}
		cancel()
		require.Empty(b, missing, ruleWatchAll)
		b.reopen(func() {})
	}
}

func watchHintsAtAnExit(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	// Two exits: the second occurs while the first hint is handled.
	first := b.create(p, sb, "main", 0, Behaviour{ExitAfter: 3 * b.h.Unit, ExitCode: 3})
	second := b.create(p, sb, "main", 1, Behaviour{ExitAfter: 4 * b.h.Unit})
	b.start(first)
	b.start(second)
	ctx, cancel := context.WithTimeout(b.Context(), 4*b.h.Unit+b.h.Patience)
	defer cancel()
	exited := func() bool {
		return b.container(p, first).State == runtime.StateExited && b.container(p, second).State == runtime.StateExited
	}
	seen := exited()
	for uid, err := range b.watcher().Watch(ctx) {
		require.NoError(b, err, ruleWatch)
		if uid == p.UID {
			time.Sleep(2 * b.h.Unit)
			if seen = exited(); seen {
				break
			}
		}
	}
	require.True(b, seen, ruleWatch)
	// The loop above ended early. Another watch may follow.
	ctx, cancel = context.WithTimeout(b.Context(), b.h.Unit)
	defer cancel()
	for _, err := range b.watcher().Watch(ctx) {
		require.NoError(b, err, "%s: a second watch after the first ended", ruleWatch)
	}
}

func watchEndsWithItsContext(b *bench) {
	w := b.watcher()
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	var errs []error
	wg.Go(func() {
		for _, err := range w.Watch(ctx) {
			if err != nil {
				errs = append(errs, err)
			}
		}
	})
	time.Sleep(b.h.Unit)
	cancel()
	wg.Wait() // if Watch does not end, the test hangs here
	require.Empty(b, errs, ruleWatchEnd)
}

func (b *bench) execer() runtime.Execer {
	e, ok := b.rt.(runtime.Execer)
	if !ok {
		b.Skip("the backend is no runtime.Execer")
	}
	return e
}

func (b *bench) command(behave Behaviour) []string {
	if b.s.Command != nil {
		return b.s.Command(behave)
	}
	return Shell(behave)
}

func execOutputAndCode(b *bench) {
	e := b.execer()
	p := b.pod("main")
	id := b.run(p, b.sandbox(p, 0), "main", 0, Behaviour{})
	for _, code := range []int32{0, 1, 42} {
		out, errOut, got, err := e.Exec(b.Context(), id, b.command(Behaviour{
			Print: []string{"to stdout"}, PrintErr: []string{"to stderr"}, ExitAfter: AtOnce, ExitCode: code,
		}))
		require.NoError(b, err, "%s: a command that fails is no error", ruleExecErr)
		require.EqualValues(b, code, got, ruleExec)
		require.Equal(b, "to stdout\n", string(out), ruleExec)
		require.Equal(b, "to stderr\n", string(errOut), ruleExec)
	}
	b.mustState(p, id, runtime.StateRunning, ruleExec)
	// Exec also works with a value that did not start the container.
	b.reopen(func() {})
	_, _, got, err := b.execer().Exec(b.Context(), id, b.command(Behaviour{ExitAfter: AtOnce, ExitCode: 9}))
	require.NoError(b, err, "%s; %s", ruleExecErr, ruleDurable)
	require.Equal(b, 9, got, ruleExec)
}

func execHasTheContainersEnv(b *bench) {
	e := b.execer()
	p := b.pod("main")
	spec := b.spec(p, "main", 0, Behaviour{Print: []string{"ready"}})
	spec.Env = append(spec.Env, runtime.EnvVar{Name: "GREETING", Value: "hello there"})
	spec.WorkingDir = "/usr"
	id := b.createSpec(b.sandbox(p, 0), spec)
	b.start(id)
	b.awaitLine(spec.LogPath, "ready")
	out, _, _, err := e.Exec(b.Context(), id, b.command(Behaviour{PrintEnv: []string{"GREETING"}, PrintDir: true, ExitAfter: AtOnce}))
	require.NoError(b, err, ruleExecErr)
	require.Equal(b, "GREETING=hello there\ndir=/usr\n", string(out), ruleExec)
}

func execCutsOutput(b *bench) {
	e := b.execer()
	p := b.pod("main")
	id := b.run(p, b.sandbox(p, 0), "main", 0, Behaviour{})
	out, _, code, err := e.Exec(b.Context(), id, b.command(Behaviour{PrintLong: 100 << 10, ExitAfter: AtOnce}))
	require.NoError(b, err, ruleExecErr)
	require.Zero(b, code, ruleExecCut)
	require.True(b, string(out) == strings.Repeat("x", 16<<10), "%s: got %d bytes", ruleExecCut, len(out))
}

func execEndsWithItsContext(b *bench) {
	e := b.execer()
	p := b.pod("main")
	id := b.run(p, b.sandbox(p, 0), "main", 0, Behaviour{})
	ctx, cancel := context.WithTimeout(b.Context(), 2*b.h.Unit)
	defer cancel()
	begin := time.Now()
	// The child holds the pipe open, so waiting for the end of the pipe would never end.
	_, _, _, err := e.Exec(ctx, id, b.command(Behaviour{IgnoreTerm: true, Spawn: true}))
	require.Error(b, err, ruleExecErr)
	require.ErrorIs(b, err, context.DeadlineExceeded, ruleExecErr)
	require.Less(b, time.Since(begin), 2*b.h.Unit+b.h.Patience, ruleExecCtx)
	b.mustState(p, id, runtime.StateRunning, ruleExecCtx)
}

func execCannotRun(b *bench) {
	e := b.execer()
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	made := b.create(p, sb, "main", 0, Behaviour{})
	cmd := b.command(Behaviour{ExitAfter: AtOnce})
	_, _, _, err := e.Exec(b.Context(), made, cmd)
	require.Error(b, err, "%s: the container is not running", ruleExecErr)
	require.NoError(b, b.rt.RemoveContainer(b.Context(), made), ruleRemove)
	_, _, _, err = e.Exec(b.Context(), made, cmd)
	require.ErrorIs(b, err, runtime.ErrNotFound, ruleNotFound)

	id := b.run(p, sb, "main", 1, Behaviour{})
	_, _, _, err = e.Exec(b.Context(), id, b.command(Behaviour{CannotStart: true}))
	require.Error(b, err, "%s: there is no such program", ruleExecErr)
	_, _, _, err = e.Exec(b.Context(), id, nil)
	require.Error(b, err, "%s: an empty command", ruleExecErr)
	require.NoError(b, b.rt.StopContainer(b.Context(), id, 0), ruleStop)
	_, _, _, err = e.Exec(b.Context(), id, cmd)
	require.Error(b, err, "%s: the container has exited", ruleExecErr)
}

func checkAcceptsAPlainPod(b *bench) {
	c, ok := b.rt.(runtime.Checker)
	if !ok {
		b.Skip("the backend is no runtime.Checker")
	}
	require.NoError(b, c.CheckPod(b.pod("main", "other").Pod), impliedPlain)
}

func checkRefuses(b *bench) {
	c, ok := b.rt.(runtime.Checker)
	if !ok || b.h.Refused == nil {
		b.Skip("the backend is no runtime.Checker, or the harness gives no Harness.Refused")
	}
	plain := b.pod(b.h.Refused.Spec.Containers[0].Name)
	sb := b.sandbox(plain, 0)
	p := b.pod()
	uid := p.UID
	p.Pod = b.h.Refused.DeepCopy()
	p.UID = uid

	refused := func(err error) []string {
		b.Helper()
		u, ok := errors.AsType[*runtime.UnsupportedError](err)
		require.True(b, ok, "%s: %v", ruleCheck, err)
		require.ErrorIs(b, err, runtime.ErrUnsupported, ruleCheck)
		require.Equal(b, b.rt.Name(), u.Runtime, ruleCheck)
		require.NotEmpty(b, u.Fields, ruleCheck)
		require.NotContains(b, u.Fields, "", ruleCheck)
		return slices.Clone(u.Fields)
	}
	fields := refused(c.CheckPod(p.Pod))
	require.Equal(b, fields, refused(c.CheckPod(p.Pod)), "%s: always in the same order", ruleCheck)
	_, err := b.rt.RunSandbox(b.Context(), p.sandboxSpec(0))
	require.Equal(b, fields, refused(err), ruleCheck)
	require.Empty(b, b.status(p).Sandboxes, "%s: nothing is done for a refused pod", ruleCheck)
	spec := b.spec(p, p.Spec.Containers[0].Name, 0, Behaviour{})
	_, err = b.rt.CreateContainer(b.Context(), sb, spec)
	require.Equal(b, fields, refused(err), ruleCheck)
	require.Empty(b, b.status(plain).Containers, "%s: nothing is done for a refused pod", ruleCheck)
}
