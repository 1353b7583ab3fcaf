// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// probeSignal asks whether a process is there.
const probeSignal = syscall.Signal(0)

// recorder is a testing.TB that only records its end.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (*recorder) Helper()                          {}
func (r *recorder) Skip(args ...any)               { r.skipped = fmt.Sprint(args...) }
func (r *recorder) Fatalf(format string, a ...any) { r.failed = fmt.Sprintf(format, a...) }

// TestFailOrSkip checks that CI cannot pass without an API server.
func TestFailOrSkip(t *testing.T) {
	unavailable := fmt.Errorf("%w: etcd not found", ErrUnavailable)
	tests := []struct {
		name, require   string
		err             error
		skipped, failed string
	}{
		{"started", "1", nil, "", ""},
		{"on a developer's machine", "", unavailable, "no API server for tests: etcd not found", ""},
		{"in CI", "1", unavailable, "", "start the API server: no API server for tests: etcd not found"},
		{"broken", "", errors.New("it crashed"), "", "start the API server: it crashed"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(RequireVariable, tc.require)
			r := &recorder{TB: t}
			failOrSkip(r, tc.err)
			assert.Equal(t, tc.skipped, r.skipped)
			assert.Equal(t, tc.failed, r.failed)
		})
	}
}

// TestMissingBinaries checks that one message names every missing program.
func TestMissingBinaries(t *testing.T) {
	_, err := findBinaries("")
	require.ErrorIs(t, err, ErrUnavailable)
	assert.ErrorContains(t, err, "KEELSON_APISERVER_DIR is not set")
	dir := t.TempDir()
	_, err = findBinaries(dir)
	require.ErrorIs(t, err, ErrUnavailable)
	assert.ErrorContains(t, err, "kube-apiserver, etcd, kubectl not found in "+dir)
	for _, name := range []string{"etcd", "kubectl"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o700))
	}
	_, err = findBinaries(dir)
	assert.ErrorContains(t, err, ": kube-apiserver not found")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kube-apiserver"), nil, 0o700))
	b, err := findBinaries(dir)
	require.NoError(t, err)
	assert.Equal(t, binaries{filepath.Join(dir, "kube-apiserver"), filepath.Join(dir, "etcd"), filepath.Join(dir, "kubectl"), map[string]string{}}, b)
	_, err = findBinaries(dir, "kube-scheduler")
	assert.ErrorContains(t, err, ": kube-scheduler not found")
}

// TestFlagsTakePrecedence checks that a flag of Options replaces a flag of the package, also where
// kube-apiserver would join the lists of both.
func TestFlagsTakePrecedence(t *testing.T) {
	flags := apiserverFlags(folder{dir: "/dir"}, port{number: 1}, port{number: 2},
		[]string{"--disable-admission-plugins=PodSecurity", "--bind-address", "0.0.0.0", "--watch-cache=false"})
	assert.NotContains(t, flags, "--disable-admission-plugins=ServiceAccount")
	assert.NotContains(t, flags, "--bind-address=127.0.0.1")
	assert.Contains(t, flags, "--secure-port=1")
	assert.Equal(t, []string{"--disable-admission-plugins=PodSecurity", "--bind-address", "0.0.0.0", "--watch-cache=false"}, flags[len(flags)-4:])
}

// TestPort checks that no other socket gets a reserved port, and that the port refuses connections.
func TestPort(t *testing.T) {
	p, err := reservePort()
	require.NoError(t, err)
	q, err := reservePort()
	require.NoError(t, err)
	assert.NotEqual(t, p.number, q.number)
	require.NoError(t, q.release())
	_, err = net.Listen("tcp", p.String())
	assert.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = net.Dial("tcp", p.String())
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, p.release())
	l, err := net.Listen("tcp", p.String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	assert.NoError(t, port{}.release(), "none")
}

// TestSweep checks that only the folders of dead processes are removed.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	living, err := makeFolder(parent)
	require.NoError(t, err)
	dead, err := makeFolder(parent)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dead.file("data"), nil, 0o600))
	require.NoError(t, dead.lock.Close(), "as the kernel does")
	foreign := filepath.Join(parent, folderPrefix+"foreign")
	require.NoError(t, os.Mkdir(foreign, 0o700))

	another, err := makeFolder(parent)
	require.NoError(t, err)
	assert.DirExists(t, living.dir)
	assert.NoDirExists(t, dead.dir)
	assert.DirExists(t, foreign)
	require.NoError(t, living.remove())
	assert.NoDirExists(t, living.dir)
	require.NoError(t, another.remove())
	assert.NoError(t, folder{}.remove(), "none")
	_, err = makeFolder(filepath.Join(parent, "none"))
	assert.Error(t, err)
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	assert.Contains(t, tail(file), "no such file")
	require.NoError(t, os.WriteFile(file, []byte("first\n"+strings.Repeat("line\n", 38)+"last"), 0o600))
	assert.Regexp(t, `(?s)^first\n.*last$`, tail(file))
	require.NoError(t, os.WriteFile(file, []byte("first\n"+strings.Repeat("line\n", 39)+"last"), 0o600))
	assert.Regexp(t, `(?s)^line\n.*last$`, tail(file))
}

func TestLaunchFails(t *testing.T) {
	dir := t.TempDir()
	_, err := launch(filepath.Join(dir, "none"), nil, filepath.Join(dir, "log"))
	assert.ErrorContains(t, err, "start none")
	_, err = launch("/bin/true", nil, filepath.Join(dir, "none", "log"))
	assert.Error(t, err)
}
