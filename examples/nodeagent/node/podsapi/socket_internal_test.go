// SPDX-License-Identifier: Apache-2.0

package podsapi

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/grpcunix"
)

const patience = 20 * time.Second

// serveHost serves a host on a socket until the test ends, and returns the path.
func serveHost(t *testing.T, h *host, s *socket) string {
	t.Helper()
	s.server = h.server
	if s.path == "" {
		s.path = filepath.Join(t.TempDir(), "pods-api", "s")
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, s.run(ctx)) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		_, err := os.Lstat(s.path)
		assert.ErrorIs(t, err, fs.ErrNotExist, "the socket is removed")
	})
	return s.path
}

func connect(t *testing.T, path string) api.PodsClient {
	t.Helper()
	conn, err := grpcunix.NewClient(path, 64<<20, grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return api.NewPodsClient(conn)
}

func inTime(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestCalls(t *testing.T) {
	h := newHost()
	var sourced atomic.Bool
	h.sourced = sourced.Load
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	path := filepath.Join(dir, "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}) // of an agent that was killed
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	stale.Close()
	serveHost(t, h, &socket{path: path})
	pods, ctx := connect(t, path), inTime(t)

	_, err = pods.ListPods(ctx, &api.ListPodsRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	watch, err := pods.WatchPods(ctx, &api.WatchPodsRequest{})
	require.NoError(t, err)
	_, err = watch.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	for name, mode := range map[string]fs.FileMode{dir: 0o700, path: 0o600} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
	}

	sourced.Store(true)
	h.set("2", "a")
	h.set("1", "a")
	h.publish("1", "runs")
	list, err := pods.ListPods(ctx, &api.ListPodsRequest{})
	require.NoError(t, err)
	require.Len(t, list.Pods, 2)
	var pod v1.Pod
	require.NoError(t, pod.Unmarshal(list.Pods[0]))
	require.Equal(t, *h.pod("1"), pod)
	require.Equal(t, "runs", pod.Status.Message)
	one, err := pods.GetPod(ctx, &api.GetPodRequest{PodUID: "2"})
	require.NoError(t, err)
	require.Equal(t, list.Pods[1], one.Pod)
	for uid, code := range map[string]codes.Code{"": codes.InvalidArgument, "3": codes.NotFound, strings.Repeat("x", maxRequest): codes.ResourceExhausted} {
		_, err = pods.GetPod(ctx, &api.GetPodRequest{PodUID: uid})
		require.Equal(t, code, status.Code(err))
	}

	watch, err = pods.WatchPods(ctx, &api.WatchPodsRequest{})
	require.NoError(t, err)
	for _, want := range []string{"ADDED ns/p1 1 a runs", "ADDED ns/p2 2 a ", "INITIAL_SYNC_COMPLETE"} {
		event, err := watch.Recv()
		require.NoError(t, err)
		require.Equal(t, want, line(t, event))
	}
	h.drop("2")
	event, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, "DELETED ns/p2 2  ", line(t, event))
}

func TestTooManyCallsAreRefused(t *testing.T) {
	h := newHost()
	pods, ctx := connect(t, serveHost(t, h, &socket{})), inTime(t)
	refused := false
	for range 1000 {
		_, err := pods.GetPod(ctx, &api.GetPodRequest{PodUID: "1"})
		refused = refused || status.Code(err) == codes.ResourceExhausted
	}
	require.True(t, refused)
}

// A client that never reads is disconnected, while another client gets each pod.
func TestAClientThatNeverReadsIsDisconnected(t *testing.T) {
	h := newHost()
	core, logs := observer.New(zap.WarnLevel)
	path := serveHost(t, h, &socket{patience: 100 * time.Millisecond, log: zap.New(core)})
	ctx := inTime(t)
	deaf, err := connect(t, path).WatchPods(ctx, &api.WatchPodsRequest{})
	require.NoError(t, err)
	reading, err := connect(t, path).WatchPods(ctx, &api.WatchPodsRequest{})
	require.NoError(t, err)
	for i := 0; logs.Len() == 0; i++ {
		require.NoError(t, ctx.Err())
		h.set("1", strings.Repeat("x", 100_000)+string(rune('a'+i%26)))
		event, err := reading.Recv()
		require.NoError(t, err)
		if event.Type == api.EventType_INITIAL_SYNC_COMPLETE {
			_, err = reading.Recv()
			require.NoError(t, err)
		}
	}
	for err == nil { // what was sent before
		_, err = deaf.Recv()
	}
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Eventually(t, func() bool { return len(h.watches()) == 1 }, patience, time.Millisecond)
	require.Equal(t, 1, logs.Len())
}

// A file in place of the socket stays, is named in the log, and the socket is there once the file is
// removed. The node goes on meanwhile.
func TestAFileInPlaceOfTheSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	_, err := listen(path)
	require.ErrorContains(t, err, "no socket")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))

	_, err = New(&feature.Host{Root: "/" + strings.Repeat("x", 107), Table: feature.NewTable(), Log: zap.NewNop()})
	require.ErrorContains(t, err, "at most 107 bytes")
}
