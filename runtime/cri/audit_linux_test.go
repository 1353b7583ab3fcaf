// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
)

// pretendShim is a process imitating a shim.
type pretendShim struct {
	pid                   int
	id, dir, work, socket string
}

// startShim starts a pretended shim of the containerd listening on address.
func startShim(t *testing.T, namespace, address, id string, env ...string) *pretendShim {
	t.Helper()
	top := t.TempDir()
	s := &pretendShim{id: id, dir: filepath.Join(top, "state", id), work: filepath.Join(top, "root", id), socket: filepath.Join(top, "s")}
	require.NoError(t, os.MkdirAll(s.dir, 0o700))
	require.NoError(t, os.MkdirAll(s.work, 0o700))
	require.NoError(t, os.Symlink(s.work, filepath.Join(s.dir, "work")))
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := &exec.Cmd{Path: self, Dir: s.dir, Env: append(os.Environ(), append(env, "KEELSON_CRI_TEST_SHIM="+s.socket)...),
		Args: []string{"/usr/bin/containerd-shim-runc-v2", "-namespace", namespace, "-id", id, "-address", address}}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	ready := make([]byte, len("ready\n"))
	_, err = io.ReadFull(stdout, ready)
	require.NoError(t, err)
	s.pid = cmd.Process.Pid
	return s
}

// note writes containerd's notes into the folder of a sandbox.
func (s *pretendShim) note(t *testing.T) {
	t.Helper()
	const config = `{"annotations": {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-log-directory": "/logs/default_web_uid-1"}}`
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "config.json"), []byte(config), 0o600))
}

func (s *pretendShim) lives() bool {
	info, err := proc.Lookup(s.pid)
	return err == nil && !info.Zombie
}

func auditID(digit string) string { return strings.Repeat(digit, 64) }

// TestLeftoverShims has a shim of each kind. containerd knows some of the shims.
func TestLeftoverShims(t *testing.T) {
	s := newServer(t)
	s.name = "containerd"
	other := newServer(t)
	rt := s.dial(t).(*client)

	started := startShim(t, "k8s.io", s.socket, auditID("1")) // the folder was removed: the start was cut short
	require.NoError(t, os.RemoveAll(started.dir))
	forgotten := startShim(t, "k8s.io", s.socket, auditID("2")) // containerd was killed, and the folder stays
	forgotten.note(t)
	made := startShim(t, "k8s.io", s.socket, auditID("3")) // not listed by the CRI yet
	made.note(t)
	strange := startShim(t, "k8s.io", s.socket, auditID("4")) // no record of a creation by the CRI
	busy := startShim(t, "k8s.io", s.socket, auditID("5"), "KEELSON_CRI_TEST_SHIM_CHILD=1")
	require.NoError(t, os.RemoveAll(busy.dir))
	docker := startShim(t, "moby", s.socket, auditID("6"))
	require.NoError(t, os.RemoveAll(docker.dir))
	others := startShim(t, "k8s.io", other.socket, auditID("7"))
	require.NoError(t, os.RemoveAll(others.dir))
	s.mu.Lock()
	s.known[made.id] = true
	s.mu.Unlock()

	found, err := rt.Leftovers(t.Context())
	require.NoError(t, err)
	ours := map[int]bool{}
	for _, l := range found {
		assert.Equal(t, runtime.LeftoverShim, l.Kind)
		ours[l.PID] = l.Ours
		if !l.Ours {
			require.Error(t, rt.Collect(t.Context(), l))
		}
		if l.PID == forgotten.pid {
			assert.Equal(t, "uid-1", string(l.PodUID))
		}
	}
	require.Equal(t, map[int]bool{started.pid: true, forgotten.pid: true, strange.pid: false, busy.pid: false}, ours)

	// An auditor verifies a wrong leftover before acting.
	for _, wrong := range []runtime.Leftover{
		{Kind: runtime.LeftoverShim, PID: made.pid, ID: made.id, Ours: true}, {Kind: runtime.LeftoverShim, PID: docker.pid, ID: docker.id, Ours: true},
		{Kind: runtime.LeftoverShim, PID: started.pid, ID: made.id, Ours: true}, {Kind: runtime.LeftoverProcess, PID: started.pid, ID: started.id, Ours: true},
		{Kind: runtime.LeftoverProcess, PID: os.Getpid(), Ours: true},
	} {
		require.NoError(t, rt.Collect(t.Context(), wrong))
	}
	require.True(t, started.lives())
	require.NoError(t, runtime.CollectLeftovers(t.Context(), rt))
	for _, shim := range []*pretendShim{made, strange, busy, docker, others} {
		assert.True(t, shim.lives(), shim.id)
		assert.FileExists(t, shim.socket)
	}
	for _, shim := range []*pretendShim{started, forgotten} {
		assert.False(t, shim.lives(), shim.id)
		assert.NoFileExists(t, shim.socket)
		assert.NoDirExists(t, shim.dir)
	}
	assert.NoDirExists(t, forgotten.work)
	assert.DirExists(t, made.dir)
}

// Where containerd does not answer, nothing is taken for a leftover.
func TestLeftoversNeedTheWordOfContainerd(t *testing.T) {
	s := newServer(t)
	s.name = "containerd"
	shim := startShim(t, "k8s.io", s.socket, auditID("1"))
	require.NoError(t, os.RemoveAll(shim.dir))
	rt := s.dial(t).(*client)
	for _, call := range []string{"ListPodSandbox", "ListContainers", "Get"} {
		for _, code := range []codes.Code{codes.Unavailable, codes.Unknown, codes.Unimplemented} {
			s.fail(call, code, "not now")
			found, err := rt.Leftovers(t.Context())
			require.Error(t, err, "%s: %s", call, code)
			assert.Empty(t, found)
		}
	}
	require.Error(t, runtime.CollectLeftovers(t.Context(), rt))
	assert.True(t, shim.lives())

	s.fail("", codes.OK, "")
	s.name = "cri-o"
	found, err := s.dial(t).(*client).Leftovers(t.Context())
	require.NoError(t, err)
	assert.Empty(t, found)
}
