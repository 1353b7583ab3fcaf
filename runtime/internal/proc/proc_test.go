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
	assert.Equal(t, Info{Ref: Ref{PID: 42, Start: 123456}, PPID: 7, PGID: 8, SID: 9, Name: "a) b (c"}, info)
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
		Reap(other.PID, "sleep")
	}
	assert.True(t, r.Alive())
}

// TestHold: a process is found by its arguments, whatever the hint says.
func TestHold(t *testing.T) {
	r := sleeper(t)
	sleeps := func(args []string) bool { return slices.Equal(args, []string{"sleep", "1000"}) }
	never := func([]string) bool { return false }
	for _, hint := range []Ref{r, {r.PID, 0}, {0, 0}, {os.Getpid(), 1}, {1 << 30, 1}} {
		h, err := Hold(hint, sleeps)
		require.NoError(t, err)
		if hint.PID == r.PID {
			assert.Equal(t, r.PID, h.PID(), "the hint comes first")
		}
		h.Close()
		_, err = Hold(hint, never)
		require.ErrorIs(t, err, os.ErrProcessDone)
	}
	_, err := HoldAt(Ref{PID: os.Getpid()}, sleeps)
	require.ErrorIs(t, err, os.ErrProcessDone, "it looks nowhere else")
	assert.True(t, Is(r, sleeps))
	assert.False(t, Is(r, never))
	h, err := HoldAt(r, sleeps)
	require.NoError(t, err)
	defer h.Close()
	require.NoError(t, h.Signal(unix.SIGKILL))
	require.NoError(t, h.Wait(t.Context()))
	assert.False(t, Is(r, sleeps), "a zombie is not running")
	_, err = h.Memory("x")
	require.Error(t, err)
}

// TestExecutingIsNoEnd: a process that executes a program has no arguments for some microseconds, and
// is recognized all the time.
// TestPlaceOf asks for one process among many. With many leftovers, a look at all processes for each of
// them took minutes.
func TestPlaceOf(t *testing.T) {
	isSleep := func(args []string) bool { return slices.Equal(args, []string{"sleep", "1000"}) }
	r := sleeper(t)
	dir, err := os.Getwd()
	require.NoError(t, err)
	got, ok := PlaceOf(r.PID, isSleep)
	assert.True(t, ok)
	assert.Equal(t, Place{Args: []string{"sleep", "1000"}, Dir: dir}, got)
	for _, other := range []int{os.Getpid(), 1 << 30, 0} {
		got, ok := PlaceOf(other, isSleep)
		assert.False(t, ok)
		assert.Empty(t, got)
	}
	for range 50 {
		sleeper(t)
	}
	reads := testing.AllocsPerRun(3, func() { _, _ = PlaceOf(r.PID, isSleep) })
	assert.Less(t, reads, 50., "allocations: no process but its parent is read")
	all, err := Places(isSleep)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(all), 51)
	assert.Equal(t, got, all[r.PID])
}

func TestExecutingIsNoEnd(t *testing.T) {
	c := exec.Command("sh", "-c", `exec sh -c "$0" "$0"`, `exec sh -c "$0" "$0"`)
	require.NoError(t, c.Start())
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	is := func(args []string) bool { return args[0] == "sh" }
	for !Is(Ref{PID: c.Process.Pid}, is) {
		time.Sleep(time.Millisecond)
	}
	for range 5000 {
		h, err := HoldAt(Ref{PID: c.Process.Pid}, is)
		require.NoError(t, err)
		h.Close()
	}
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
	Reap(p.Pid, "other")
	_, err = Lookup(p.Pid)
	require.NoError(t, err, "a child by another name is not reaped")
	Reap(p.Pid, "true")
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
		assert.False(t, s.Has(key))
		require.NoError(t, s.Add(handle(t, refs[key]), key))
		require.NoError(t, s.Add(handle(t, refs[key]), key), "twice is once")
		assert.True(t, s.Has(key))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	_, err = s.Wait(ctx)
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, s.AddGone("gone"))
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
	h := handle(t, late)
	go func() { added <- s.Add(h, "late"); _ = late.Signal(unix.SIGKILL) }()
	keys, err = s.Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"late"}, keys, "added while it is waited for")
	require.NoError(t, <-added)

	waited := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context())
		waited <- err
	}()
	s.Close()
	s.Close()
	require.Error(t, <-waited)
	assert.NoError(t, s.Add(handle(t, refs["c"]), "c"))
}

func handle(t *testing.T, r Ref) *Handle {
	t.Helper()
	h, err := r.Open()
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

// script runs a shell script in a session of its own, which is killed at the end.
func script(t *testing.T, text string, env ...string) Ref {
	t.Helper()
	c := exec.Command("sh", "-c", text)
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = unix.Kill(-c.Process.Pid, unix.SIGKILL); _ = c.Wait() })
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err, "the script says when it is ready")
	info, err := Lookup(c.Process.Pid)
	require.NoError(t, err)
	return info.Ref
}

// members returns the living processes of a session.
func members(t *testing.T, session int) (out []Info) {
	t.Helper()
	all, err := All()
	require.NoError(t, err)
	for _, p := range all {
		if p.SID == session && !p.Zombie {
			out = append(out, p)
		}
	}
	return out
}

func TestKillMarked(t *testing.T) {
	const mark = "PROC_TEST_MARK=x"
	marked := []Ref{sleeper(t, mark), sleeper(t, mark)}
	other := sleeper(t, "PROC_TEST_MARK=y")
	// A marked process makes the session. Two of its processes have no mark.
	whole := script(t, "env -i sleep 1000 & env -i sleep 1000 & sleep 1000 & echo; wait", mark)
	// A marked process in the session of another program, such as a shell's.
	joined := script(t, "env "+mark+" sh -c 'echo; exec sleep 1000' & wait")
	require.NoError(t, KillMarked(t.Context(), mark, Ref{}))
	for _, r := range marked {
		assert.False(t, r.Alive())
	}
	assert.Empty(t, members(t, whole.PID), "the whole session is killed")
	assert.True(t, other.Alive())
	for _, p := range members(t, joined.PID) {
		assert.False(t, HasEnv(p.PID, mark))
	}
	assert.False(t, HasEnv(other.PID, "PROC_TEST_MARK="))
	require.NoError(t, KillMarked(t.Context(), "PROC_TEST_MARK=none", Ref{}))
	assert.True(t, other.Alive())
}

// TestKillMarkedSparesSessionsMadeOutside runs TestKillMarked in a PID namespace. There, session 0
// has all processes that were started from outside of the namespace.
func TestKillMarkedSparesSessionsMadeOutside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a PID namespace")
	}
	c := exec.Command("sh", "-c", `mount -t proc proc /proc || exit; sleep 1000 & bystander=$!
		"$0" -test.run='^TestKillMarked$' -test.v -test.timeout=10s && kill -0 $bystander && echo "$bystander is alive"`, os.Args[0])
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	said, err := c.CombinedOutput()
	require.NoError(t, err, string(said))
	require.Contains(t, string(said), "--- PASS: TestKillMarked ")
	require.Contains(t, string(said), "is alive")
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
