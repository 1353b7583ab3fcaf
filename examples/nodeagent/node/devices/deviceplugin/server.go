// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	plugins "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices"
	"github.com/keelson-dev/keelson/internal/grpcunix"
	"github.com/keelson-dev/keelson/internal/podresources"
)

// SocketName is the name of the socket on which plug-ins register.
const SocketName = "kubelet.sock"

// maxSocketPath is the longest path of a Unix socket, in bytes.
const maxSocketPath = 107

// Options configure a Server.
type Options struct {
	// Follow serves a resource with a plug-in until ctx or the connection ends. devices.Manager.Follow
	// fits. Required.
	Follow func(ctx context.Context, resource string, p devices.Plugin) error
	// Registered is called after each registration. Defaults to nil.
	Registered func(resource string)
	// Logger receives the log. Defaults to none.
	Logger *zap.Logger
}

// Server is the registration service for device plug-ins.
type Server struct {
	plugins.UnimplementedRegistrationServer
	dir      string
	opts     Options
	listener net.Listener
	ended    atomic.Pointer[error] // why Serve has ended

	followers sync.WaitGroup
	mu        struct {
		sync.Mutex
		serving context.Context // ends with Serve; nil before
	}
}

// Listen makes the folder dir, removes all sockets in it, and listens on kubelet.sock there.
// Plug-ins that register wait for Serve. The error names the folder or the invalid option.
func Listen(dir string, o Options) (*Server, error) {
	path := filepath.Join(dir, SocketName)
	switch {
	case o.Follow == nil:
		return nil, errors.New("deviceplugin: Options.Follow is required")
	case !filepath.IsAbs(dir):
		return nil, fmt.Errorf("deviceplugin: folder %q: want an absolute path", dir)
	case len(path) > maxSocketPath:
		return nil, fmt.Errorf("deviceplugin: the path of socket %s has %d bytes, and the system allows %d", path, len(path), maxSocketPath)
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("deviceplugin: %w", err)
	}
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		conn.Close()
		return nil, fmt.Errorf("deviceplugin: another kubelet serves device plug-ins on %s", path)
	}
	if err := removeSockets(dir); err != nil {
		return nil, fmt.Errorf("deviceplugin: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("deviceplugin: %w", err)
	}
	return &Server{dir: dir, opts: o, listener: listener}, nil
}

// removeSockets removes the sockets in a folder.
func removeSockets(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type()&fs.ModeSocket == 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// Serve answers plug-ins until ctx has ended and all connections to plug-ins are closed. It can be
// called once.
func (s *Server) Serve(ctx context.Context) error {
	s.mu.Lock()
	s.mu.serving = ctx
	s.mu.Unlock()
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	plugins.RegisterRegistrationServer(server, s)
	err := grpcunix.Serve(ctx, server, s.listener)
	s.followers.Wait()
	if err != nil {
		s.ended.Store(&err)
	}
	return err
}

// Check returns an error if the server has ended on its own. It is the kubelet's health check
// "device-plugin".
func (s *Server) Check(context.Context) error {
	if err := s.ended.Load(); err != nil {
		return fmt.Errorf("device registration error: %w", *err)
	}
	return nil
}

// Register implements the service of the plug-ins.
func (s *Server) Register(ctx context.Context, r *plugins.RegisterRequest) (*plugins.Empty, error) {
	err := s.register(ctx, r)
	if err != nil {
		s.opts.Logger.Warn("device plug-in is refused", zap.String("resource", r.ResourceName), zap.String("endpoint", r.Endpoint), zap.Error(err))
		return nil, err
	}
	return &plugins.Empty{}, nil
}

func (s *Server) register(ctx context.Context, r *plugins.RegisterRequest) error {
	if err := s.Validate(r.ResourceName, []string{r.Version}); err != nil {
		return err
	}
	if r.Endpoint != filepath.Base(r.Endpoint) || r.Endpoint == SocketName {
		return fmt.Errorf("the endpoint %q is invalid: want the name of the plug-in's socket in %s", r.Endpoint, s.dir)
	}
	client, err := dial(ctx, filepath.Join(s.dir, r.Endpoint))
	if err != nil {
		return err
	}
	s.mu.Lock()
	serving := s.mu.serving
	s.mu.Unlock()
	s.followers.Go(func() { s.follow(serving, r.ResourceName, client) }) // before Serve waits: server.Stop waits for this call
	return nil
}

// follow serves a resource with a plug-in, and closes the connection at the end.
func (s *Server) follow(ctx context.Context, resource string, c *client) {
	defer c.close()
	s.opts.Logger.Info("device plug-in registered", zap.String("resource", resource), zap.String("socket", c.path))
	if s.opts.Registered != nil {
		s.opts.Registered(resource)
	}
	_ = s.opts.Follow(ctx, resource, c) // logs the end
}

// Validate implements Handler.
func (s *Server) Validate(resource string, versions []string) error {
	if !slices.Contains(versions, plugins.Version) {
		return fmt.Errorf("requested API version %q is not supported by kubelet. Supported version is [%q]", strings.Join(versions, ","), plugins.Version)
	}
	if !podresources.IsExtended(v1.ResourceName(resource)) {
		return fmt.Errorf("the ResourceName %q is invalid", resource)
	}
	return nil
}

// Serves implements Handler for plug-ins with a socket in the folder of a Watcher.
func (s *Server) Serves(ctx context.Context, resource, socket string, isReady func()) error {
	client, err := dial(ctx, socket)
	if err != nil {
		return err
	}
	isReady()
	s.follow(ctx, resource, client)
	return context.Cause(ctx)
}
