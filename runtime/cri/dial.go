// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/grpcunix"
	"github.com/keelson-dev/keelson/internal/keylock"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// maxMessage is the largest accepted answer in bytes, as in the kubelet.
const maxMessage = 16 << 20

// Backend is a runtime.Runtime over a CRI socket, returned by Dial. If the runtime offers events,
// Dial's value is also a runtime.Watcher. Otherwise the value is no Watcher, so the caller relists
// often enough.
type Backend interface {
	runtime.Runtime
	runtime.Checker
	runtime.Execer
	runtime.Streamer
	stats.Reader
	runtime.Updater
	runtime.MemoryMeter
	runtime.Auditor
	Images
	LogReopener

	// Info returns the facts about the runtime found by Dial.
	Info() Info
	// Ready asks the runtime whether containers and their networks can run. The error is a
	// *NotReadyError, or the error of the call.
	Ready(ctx context.Context) error
	// Close ends the connection. Calls under way and later calls fail. Containers continue.
	Close() error
}

// client is the backend over one CRI socket. See Dial. All methods are safe
// for concurrent use.
type client struct {
	opts   Options
	info   Info
	socket string // path of the socket
	conn   *grpc.ClientConn
	cri    api.RuntimeServiceClient
	images api.ImageServiceClient
	files  files
	node   node
	log    *zap.Logger

	turns keylock.Locks[string] // of starts and removals, by container ID
	lost  sync.Map              // IDs of containers whose start has an unknown outcome, see stop.go

	removals  removals     // of images, see pullagain.go
	pulls     atomic.Int32 // under way
	pullBegan atomic.Int64 // the last, in seconds of Unix

	mu struct {
		sync.Mutex
		sandboxes map[runtime.SandboxID]*sandbox // a cache of facts needed by later calls
		handlers  map[string]foundHandler        // answers of Options.FindHandler, by the name of the RuntimeClass
		neverRan  map[string]bool                // exited containers: true for a container never started
		askAgain  map[string]time.Time           // exited containers without an answer to ContainerStatus
		mounted   map[string][]string            // images mounted by containers, by container ID

		imagesByID map[string]*api.Image // facts about images, present or not; never written
	}
}

var (
	_ Backend         = (*client)(nil)
	_ Backend         = (*watchingRuntime)(nil)
	_ runtime.Watcher = (*watchingRuntime)(nil)
)

// Dial connects to the CRI runtime behind endpoint, "unix:///path" or "/path", and asks for its
// version and abilities. ctx bounds only Dial, which takes a few milliseconds, and at most 10 s.
//
// Errors: a bad option (by name); no such socket or no listener (ErrUnavailable, worth a retry); a
// server without CRI v1; or a runtime not ready (*NotReadyError, worth a retry). A network not
// ready is no error here: pods on the host's network can run. See Ready.
func Dial(ctx context.Context, endpoint string, opts Options) (Backend, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	path, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, fmt.Errorf("cri: %w", err)
	}
	if err := checkSocket(path); err != nil {
		return nil, fmt.Errorf("cri: %w", err)
	}
	conn, err := connect(path)
	if err != nil {
		return nil, fmt.Errorf("cri: endpoint %q: %w", endpoint, err)
	}
	r := &client{
		opts:   opts,
		socket: path,
		conn:   conn,
		cri:    api.NewRuntimeServiceClient(conn),
		images: api.NewImageServiceClient(conn),
		files:  files{root: opts.Root},
		log:    opts.Logger,
	}
	r.mu.sandboxes = make(map[runtime.SandboxID]*sandbox)
	r.mu.handlers = make(map[string]foundHandler)
	r.mu.neverRan = make(map[string]bool)
	r.mu.askAgain = make(map[string]time.Time)
	r.mu.mounted = make(map[string][]string)
	r.mu.imagesByID = make(map[string]*api.Image)
	if r.node, err = lookAtNode(opts); err == nil {
		r.info, err = r.probe(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("cri: %s: %w", path, err)
	}
	if r.info.Events {
		return &watchingRuntime{client: r}, nil
	}
	return r, nil
}

// connect prepares the connection. The first call connects, and later calls reconnect after a
// break.
func connect(path string) (*grpc.ClientConn, error) {
	return grpcunix.NewClient(path, maxMessage,
		grpc.WithIdleTimeout(0),
		// A restarted runtime is found within a second.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	)
}

// Close implements Backend.
func (r *client) Close() error { return r.conn.Close() }

// Name is the runtime's own word for itself: "containerd" or "cri-o".
func (r *client) Name() string { return r.info.Name }

// Info implements Backend.
func (r *client) Info() Info { return r.info.clone() }
