// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pids are the processes of a server.
func pids(s *Server) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []int{s.mu.etcd.pid, s.mu.apiserver.pid}
}

// requireNoTraces checks that a stopped server has left nothing.
func requireNoTraces(t *testing.T, s *Server, pids []int) {
	t.Helper()
	for _, pid := range pids {
		assert.False(t, alive(pid), "process %d", pid)
	}
	assert.NoDirExists(t, s.folder.dir)
	for _, p := range []port{s.secure, s.clients} {
		l, err := net.Listen("tcp", p.String())
		if assert.NoError(t, err) {
			assert.NoError(t, l.Close())
		}
	}
}

// alive reports whether there is a process, a zombie included.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return p.Signal(probeSignal) == nil
}

// TestStopLeavesNothing starts two servers, the second with a flag of its own:
// without a watch cache a compaction alone is enough for a 410.
func TestStopLeavesNothing(t *testing.T) {
	var first, second *Server
	var firstPIDs, secondPIDs []int
	t.Run("life", func(t *testing.T) {
		first = Start(t, Options{})
		firstPIDs = pids(first)
	})
	if first == nil {
		t.Skip("there is none to start")
	}
	requireNoTraces(t, first, firstPIDs)
	assert.NoError(t, first.Stop(), "a second time")
	assert.ErrorContains(t, first.Restart(t.Context()), "stopped")

	t.Run("without a watch cache", func(t *testing.T) {
		second = Start(t, Options{Flags: []string{"--watch-cache=false"}})
		secondPIDs = pids(second)
		p := newPlace(t, second, "compact")
		old := p.create(t, "old").ResourceVersion
		p.create(t, "new")
		p.create(t, "newer") // a state that is itself kept is not forgotten
		require.NoError(t, p.Compact(t.Context()))
		assert.True(t, isGone(p.watchFrom(t.Context(), old)))
		require.NoError(t, second.Kill(), "Stop must do without, too")
	})
	requireNoTraces(t, second, secondPIDs)
}

// TestFailedStart checks that a failed start returns the reason and leaves no server.
func TestFailedStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := New(t.Context(), Options{Flags: []string{"--nonsense"}})
	if err != nil && os.Getenv(DirVariable) == "" {
		failOrSkip(t, err)
	}
	require.ErrorContains(t, err, "a process has ended")
	assert.ErrorContains(t, err, "unknown flag: --nonsense", "the log")
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestCanceledStart checks that the end of the context ends a start.
func TestCanceledStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := New(canceled(t), Options{})
	if err != nil && os.Getenv(DirVariable) == "" {
		failOrSkip(t, err)
	}
	require.ErrorContains(t, err, "context canceled")
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}
