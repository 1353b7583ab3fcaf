// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// sleeper starts a process that is killed and reaped at the end of the test.
func sleeper(t *testing.T, env ...string) Ref {
	t.Helper()
	c := exec.Command("sleep", "1000")
	c.Env = append(os.Environ(), env...)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	info, err := Lookup(c.Process.Pid)
	require.NoError(t, err)
	return info.Ref
}

func TestParseStat(t *testing.T) {
	raw := "42 (a) b (c) S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 2 3\n"
	info, err := parseStat([]byte(raw))
	require.NoError(t, err)
	assert.Equal(t, Info{Ref: Ref{PID: 42, Start: 123456}, PPID: 7, PGID: 8, SID: 9}, info)
	for _, bad := range []string{"", "42", "42 (a)", "42 )a( S", "x (a) S 7 8 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 2", "42 (a) S 7 8 9"} {
		_, err := parseStat([]byte(bad))
		assert.Error(t, err, "%q", bad)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 2 3\n"))
	f.Add([]byte("))(("))
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = parseStat(raw) })
}

func TestRefIsNotMistaken(t *testing.T) {
	r := sleeper(t)
	assert.True(t, r.Alive())
	for _, other := range []Ref{{r.PID, r.Start + 1}, {0, 0}, {-1, r.Start}, {1 << 30, 1}} {
		assert.False(t, other.Alive())
		assert.ErrorIs(t, other.Signal(unix.SIGKILL), os.ErrProcessDone)
		_, err := other.Open()
		assert.ErrorIs(t, err, os.ErrProcessDone)
		other.Reap()
	}
	assert.True(t, r.Alive())
	found, ok := Find("sleep", "1000")
	assert.True(t, ok)
	assert.True(t, found.Alive())
	_, ok = Find("sleep", "100000001")
	assert.False(t, ok)
}

func TestZombiesAreDeadUntilReaped(t *testing.T) {
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	require.NoError(t, err)
	info, err := Lookup(p.Pid)
	require.NoError(t, err)
	h, err := info.Ref.Open()
	require.NoError(t, err)
	defer h.Close()
	require.NoError(t, h.Wait(t.Context()))
	assert.False(t, info.Ref.Alive())
	info.Ref.Reap()
	_, err = Lookup(p.Pid)
	assert.ErrorIs(t, err, os.ErrProcessDone)
	require.NoError(t, h.Wait(t.Context()), "a handle still knows")
	assert.ErrorIs(t, h.Signal(unix.SIGTERM), os.ErrProcessDone)
}

func TestHandleWaitEndsWithItsContext(t *testing.T) {
	r := sleeper(t)
	h, err := r.Open()
	require.NoError(t, err)
	defer h.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, h.Wait(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, h.Wait(ctx), context.DeadlineExceeded, "at once")
	require.NoError(t, h.Signal(unix.SIGKILL))
	require.NoError(t, h.Wait(t.Context()), "it can be waited for again")
}

func TestSet(t *testing.T) {
	s, err := NewSet()
	require.NoError(t, err)
	defer s.Close()
	refs := map[string]Ref{}
	for _, key := range []string{"a", "b", "c"} {
		refs[key] = sleeper(t)
		require.NoError(t, s.Add(refs[key], key))
		require.NoError(t, s.Add(refs[key], key), "twice is once")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	_, err = s.Wait(ctx)
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, s.Add(Ref{PID: refs["a"].PID, Start: 1}, "gone"))
	keys, err := s.Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"gone"}, keys)

	require.NoError(t, refs["a"].Signal(unix.SIGKILL))
	require.NoError(t, refs["b"].Signal(unix.SIGKILL))
	keys = nil
	for len(keys) < 2 {
		more, err := s.Wait(t.Context())
		require.NoError(t, err)
		keys = append(keys, more...)
	}
	slices.Sort(keys)
	assert.Equal(t, []string{"a", "b"}, keys)

	added := make(chan error, 1)
	late := sleeper(t)
	go func() { added <- s.Add(late, "late"); _ = late.Signal(unix.SIGKILL) }()
	keys, err = s.Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"late"}, keys, "added while it is waited for")
	require.NoError(t, <-added)

	s.Close()
	s.Close()
	assert.NoError(t, s.Add(refs["c"], "c"))
}

func TestKillAll(t *testing.T) {
	const mark = "PROC_TEST_MARK=x"
	marked := []Ref{sleeper(t, mark), sleeper(t, mark)}
	other := sleeper(t, "PROC_TEST_MARK=y")
	require.NoError(t, KillAll(t.Context(), func(p Info) bool { return HasEnv(p.PID, mark) }))
	for _, r := range marked {
		assert.False(t, r.Alive())
	}
	assert.True(t, other.Alive())
	assert.False(t, HasEnv(other.PID, "PROC_TEST_MARK="))
	require.NoError(t, KillAll(t.Context(), func(Info) bool { return false }))
}

func TestDescendants(t *testing.T) {
	all := []Info{{Ref: Ref{PID: 1}}, {Ref: Ref{PID: 2}, PPID: 1}, {Ref: Ref{PID: 3}, PPID: 2}, {Ref: Ref{PID: 4}, PPID: 3}, {Ref: Ref{PID: 5}, PPID: 1}}
	var pids []int
	for _, p := range Descendants(all, 2) {
		pids = append(pids, p.PID)
	}
	assert.Equal(t, []int{3, 4}, pids)
	assert.Empty(t, Descendants(nil, 1))
}

func TestBootID(t *testing.T) {
	id, err := BootID()
	require.NoError(t, err)
	again, err := BootID()
	require.NoError(t, err)
	assert.Equal(t, id, again)
	assert.Len(t, id, 36)
}
