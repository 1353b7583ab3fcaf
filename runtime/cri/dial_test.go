// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

func TestParseEndpoint(t *testing.T) {
	for _, tt := range []struct{ endpoint, path, err string }{
		{"unix:///run/cri.sock", "/run/cri.sock", ""},
		{"/run/cri.sock", "/run/cri.sock", ""},
		{"unix:///run//x/../cri.sock", "/run/cri.sock", ""},
		{"", "", "names no socket"},
		{"unix://", "", "names no socket"},
		{"unix://run/cri.sock", "", "not absolute"},
		{"run/cri.sock", "", "not absolute"},
		{"tcp://127.0.0.1:80", "", "only unix sockets"},
		{"npipe:////./pipe/x", "", "only unix sockets"},
	} {
		path, err := parseEndpoint(tt.endpoint)
		assert.Equal(t, tt.path, path, tt.endpoint)
		if tt.err == "" {
			assert.NoError(t, err, tt.endpoint)
		} else {
			assert.ErrorContains(t, err, tt.err, tt.endpoint)
		}
	}
}

func TestOptionsNameTheBadField(t *testing.T) {
	for _, tt := range []struct {
		opts Options
		want string
	}{
		{Options{}, "Options.Root is required"},
		{Options{Root: "x"}, "Options.Root"},
		{Options{Root: "/x", DNS: DNS{Servers: []string{"dns.example"}}}, "Options.DNS.Servers"},
		{Options{Root: "/x", DNS: DNS{ResolvConf: "resolv.conf"}}, "Options.DNS.ResolvConf"},
	} {
		_, err := Dial(t.Context(), "/nowhere", tt.opts)
		assert.ErrorContains(t, err, tt.want)
	}
}

// listenAs makes a socket and passes each connection to f.
func listenAs(t *testing.T, f func(net.Conn)) string {
	path := filepath.Join(t.TempDir(), "sock")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			f(c)
		}
	}()
	return path
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())

	garbage := listenAs(t, func(c net.Conn) {
		_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
		_ = c.Close()
	})
	other := filepath.Join(dir, "other")
	listener, err := net.Listen("unix", other)
	require.NoError(t, err)
	stranger := grpc.NewServer()
	go func() { _ = stranger.Serve(listener) }()
	t.Cleanup(stranger.Stop)

	for _, tt := range []struct {
		name, endpoint, want string
		is                   error
	}{
		{"no such socket", filepath.Join(dir, "none"), "there is no socket", ErrUnavailable},
		{"not a socket", file, "is no socket", nil},
		{"nobody listens", stale, "connection refused", ErrUnavailable},
		{"no gRPC", garbage, "cannot be reached", ErrUnavailable},
		{"no CRI", other, "speaks no CRI v1", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Dial(t.Context(), tt.endpoint, Options{Root: dir})
			require.ErrorContains(t, err, tt.want)
			assert.ErrorContains(t, err, tt.endpoint)
			if tt.is != nil {
				assert.ErrorIs(t, err, tt.is)
			} else {
				assert.NotErrorIs(t, err, ErrUnavailable)
			}
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	silent := listenAs(t, func(net.Conn) {})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, silent, Options{Root: t.TempDir()})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestDialProbes(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	assert.Equal(t, "pretend", rt.Name())
	info := rt.Info()
	assert.Equal(t, "1.2.3", info.Version)
	assert.Empty(t, info.CgroupDriver, "RuntimeConfig is not offered")
	assert.Nil(t, info.Handlers)
	assert.False(t, info.Events)
	assert.NotImplements(t, (*runtime.Watcher)(nil), rt)
	assert.NoError(t, rt.Ready(t.Context()))
}

func TestConditions(t *testing.T) {
	s := newServer(t)
	s.conditions[api.NetworkReady] = false
	rt := s.dial(t) // pods on the host's network can run
	var notReady *NotReadyError
	require.ErrorAs(t, rt.Ready(t.Context()), &notReady)
	require.Len(t, notReady.Conditions, 1)
	assert.Equal(t, Condition{Type: "NetworkReady", Reason: "Because", Message: "of the test"}, notReady.Conditions[0])

	s.mu.Lock()
	s.conditions[api.RuntimeReady] = false
	s.mu.Unlock()
	_, err := Dial(t.Context(), s.socket, Options{Root: t.TempDir()})
	require.ErrorAs(t, err, &notReady)
	assert.ErrorContains(t, err, "RuntimeReady is false: Because: of the test")

	s.mu.Lock()
	clear(s.conditions)
	s.mu.Unlock()
	_, err = Dial(t.Context(), s.socket, Options{Root: t.TempDir()})
	assert.ErrorAs(t, err, &notReady, "what is not reported is not ready")
}

// The runtime sees the end of the question, too, and may say so first.
func TestEventsAreOfferedBySilence(t *testing.T) {
	s := newServer(t)
	s.events = make(chan *api.ContainerEventResponse)
	close(s.events)
	assert.False(t, s.dial(t).Info().Events, "an error is no offer")
	s.endOfEvents = status.Error(codes.DeadlineExceeded, "time is up")
	assert.True(t, s.dial(t).Info().Events)
}

func TestMajorVersion(t *testing.T) {
	for version, want := range map[string]int{"1.6.20~ds1": 1, "v2.4.2": 2, "2.0.0-rc.1": 2, "": -1, "devel": -1} {
		assert.Equal(t, want, release(version).major, version)
	}
}

// A restarted runtime is used again, and calls meanwhile fail at once.
func TestReconnect(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	s.close()
	began := time.Now()
	_, err := rt.List(t.Context(), runtime.ListOptions{})
	require.ErrorIs(t, err, ErrUnavailable)
	assert.Less(t, time.Since(began), 10*time.Second)

	s.listen(t)
	deadline := time.Now().Add(time.Minute)
	for err != nil && time.Now().Before(deadline) {
		_, err = rt.List(t.Context(), runtime.ListOptions{})
	}
	require.NoError(t, err)
}

func TestCallErrors(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := made(t, rt, "u1")
	for _, tt := range []struct {
		code codes.Code
		is   error
	}{
		{codes.NotFound, runtime.ErrNotFound},
		{codes.Unimplemented, runtime.ErrUnsupported},
		{codes.Unavailable, ErrUnavailable},
	} {
		s.fail("StartContainer", tt.code, "in words")
		err := rt.StartContainer(t.Context(), id)
		assert.ErrorIs(t, err, tt.is)
		assert.ErrorContains(t, err, "in words")
	}
	s.fail("StartContainer", codes.Unknown, "container with ID starting with 2c5f not found: ID does not exist") // CRI-O
	assert.ErrorIs(t, rt.StartContainer(t.Context(), id), runtime.ErrNotFound)
	s.fail("StartContainer", codes.Unknown, "some reason")
	var call *CallError
	require.ErrorAs(t, rt.StartContainer(t.Context(), id), &call)
	assert.Equal(t, CallError{Call: "StartContainer", Code: codes.Unknown, Message: "some reason"}, *call)
}

// late is a context with a passed deadline and a timer not yet fired.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// The runtime also knows a ctx's deadline, and the runtime's answer may come first.
func TestDeadlineThatTheRuntimeSawFirst(t *testing.T) {
	timedOut := status.Error(codes.DeadlineExceeded, "too late")
	assert.ErrorIs(t, callError(late{t.Context()}, callTimeout, "X", timedOut), context.DeadlineExceeded)
	unknown := status.Error(codes.Unknown, "failed to start exec: context deadline exceeded: unknown") // containerd 1.6
	assert.ErrorIs(t, callError(late{t.Context()}, noTimeout, "X", unknown), context.DeadlineExceeded)
	assert.NotErrorIs(t, callError(t.Context(), noTimeout, "X", unknown), context.DeadlineExceeded, "it was not ctx that ended")
	err := callError(t.Context(), callTimeout, "X", timedOut)
	assert.NotErrorIs(t, err, context.DeadlineExceeded, "it was not ctx that ended")
	assert.EqualError(t, err, "X: no answer within 2m0s")
}
