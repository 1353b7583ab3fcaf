// SPDX-License-Identifier: Apache-2.0

package podsapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/grpcunix"
	"github.com/keelson-dev/keelson/internal/retry"
)

const (
	maxConnections = 64
	maxRequest     = 64 << 10 // bytes; requests have a UID at most
	maxRate        = 100      // calls a second
	maxBurst       = 10
	idleConnection = 5 * time.Minute // without a call
	readPatience   = 30 * time.Second
	listenPause    = 10 * time.Second // after an error
)

// socket serves a server.
type socket struct {
	*server
	path     string
	log      *zap.Logger
	patience time.Duration // 0: readPatience
	api.UnimplementedPodsServer
}

// run serves the socket until ctx ends. After an error, run logs the error and tries again, because
// the node can run its pods without this feature.
func (s *socket) run(ctx context.Context) error {
	failures := failurelog.Log{Logger: s.log, Failed: "the pods API is not served", Recovered: "the pods API is served again"}
	for {
		err := s.serve(ctx, func() { failures.Report(nil) })
		if ctx.Err() != nil {
			return nil
		}
		failures.Report(fmt.Errorf("%s: %w", s.path, err))
		if retry.Sleep(ctx, listenPause) != nil {
			return nil
		}
	}
}

// serve calls listening once clients can connect.
func (s *socket) serve(ctx context.Context, listening func()) error {
	listener, err := listen(s.path)
	if err != nil {
		return err
	}
	listening()
	server := grpc.NewServer(
		grpc.Creds(localCredentials{insecure.NewCredentials()}), grpc.WaitForHandlers(true), grpc.MaxRecvMsgSize(maxRequest), grpc.MaxConcurrentStreams(maxWatchers),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleConnection, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, call grpc.UnaryHandler) (any, error) {
			if err := s.allowed(); err != nil {
				return nil, err
			}
			return call(ctx, request)
		}),
		grpc.StreamInterceptor(func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, call grpc.StreamHandler) error {
			if err := s.allowed(); err != nil {
				return err
			}
			return call(service, stream)
		}),
	)
	api.RegisterPodsServer(server, s)
	return grpcunix.Serve(ctx, server, netutil.LimitListener(listener, maxConnections))
}

// listen makes the socket, in place of the socket of an earlier agent. The lock on the node's root
// folder excludes another agent with the same path.
func listen(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil { // before the socket exists
		return nil, err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, errors.New("there is a file that is no socket: remove it")
	default:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// allowed returns an error for a call before the sources have delivered their pods, or beyond the
// limit of calls.
func (s *server) allowed() error {
	switch {
	case !s.calls.Allow():
		return status.Errorf(codes.ResourceExhausted, "more than %d calls a second", maxRate)
	case !s.sourced():
		return status.Error(codes.Unavailable, "the sources of this node have not delivered their pods yet")
	}
	return nil
}

// ListPods implements api.PodsServer.
func (s *socket) ListPods(context.Context, *api.ListPodsRequest) (*api.ListPodsResponse, error) {
	answer := &api.ListPodsResponse{}
	for _, uid := range s.all() {
		pod := s.pod(uid)
		if pod == nil { // forgotten since
			continue
		}
		text, err := encode(pod)
		if err != nil {
			return nil, err
		}
		answer.Pods = append(answer.Pods, text)
	}
	return answer, nil
}

// GetPod implements api.PodsServer.
func (s *socket) GetPod(_ context.Context, r *api.GetPodRequest) (*api.GetPodResponse, error) {
	if r.GetPodUID() == "" {
		return nil, status.Error(codes.InvalidArgument, "podUID is required")
	}
	pod := s.pod(types.UID(r.GetPodUID()))
	if pod == nil {
		return nil, status.Errorf(codes.NotFound, "this node has no pod with the UID %q", r.GetPodUID())
	}
	text, err := encode(pod)
	return &api.GetPodResponse{Pod: text}, err
}

// WatchPods implements api.PodsServer. The connection of a client that does not read is closed: to end
// the call alone would leave its unread events in memory.
func (s *socket) WatchPods(_ *api.WatchPodsRequest, stream grpc.ServerStreamingServer[api.WatchPodsEvent]) error {
	patience := cmp.Or(s.patience, readPatience)
	hangUp := func() {
		s.log.Warn("a client of the pods API does not read its watch, and is disconnected", zap.Duration("after", patience))
		if p, ok := peer.FromContext(stream.Context()); ok {
			if c, ok := p.AuthInfo.(connection); ok {
				c.Close()
			}
		}
	}
	return s.watch(stream.Context(), func(event *api.WatchPodsEvent) error {
		defer time.AfterFunc(patience, hangUp).Stop()
		return stream.Send(event)
	})
}

// localCredentials make the connection of a call known to its handler.
type localCredentials struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (localCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, connection{c}, nil
}

// connection implements credentials.AuthInfo.
type connection struct{ net.Conn }

// AuthType implements credentials.AuthInfo.
func (connection) AuthType() string { return "unix" }
