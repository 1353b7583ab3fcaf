// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
)

// maxMessage is the largest answer that is taken, in bytes; the kubelet's.
const maxMessage = 16 << 20

// Backend is a runtime.Runtime over a CRI socket: what Dial returns and
// *Runtime implements. If the runtime offers events, the value that Dial
// returns is a runtime.Watcher, too; if not, it is not, so that the caller
// relists often enough.
type Backend interface {
	runtime.Runtime
	runtime.Checker
	runtime.Execer
	runtime.Streamer
	runtime.StatsReader
	runtime.Updater
	runtime.MemoryMeter
	Images
	LogReopener

	// Info says what was found behind the socket by Dial.
	Info() Info
	// Ready asks the runtime whether it can run containers, and their networks.
	// The error is a *NotReadyError, or that of the call.
	Ready(ctx context.Context) error
	// Close ends the connection. Calls under way and later ones fail; containers
	// go on.
	Close() error
}

// Runtime is the backend over one CRI socket. See Dial. All methods are safe
// for concurrent use.
type Runtime struct {
	opts   Options
	info   Info
	conn   *grpc.ClientConn
	cri    api.RuntimeServiceClient
	images api.ImageServiceClient
	files  files
	node   node
	log    *zap.Logger

	removals removals // of images, see pullagain.go

	mu struct {
		sync.Mutex
		sandboxes map[runtime.SandboxID]*sandbox // what later calls need to know; a cache
		starts    map[string]*start              // starts and removals under way, by container ID
		lost      map[string]bool                // starts whose outcome is not known, see stop.go
		neverRan  map[string]bool                // exited containers: whether they never ran
		askAgain  map[string]time.Time           // exited containers that could not be looked at
		mounted   map[string][]string            // images that containers have mounted, by container ID

		imagesByID map[string]*api.Image // what they are, not whether they are there; never written
	}
}

var (
	_ Backend         = (*Runtime)(nil)
	_ Backend         = (*watchingRuntime)(nil)
	_ runtime.Watcher = (*watchingRuntime)(nil)
)

// Dial connects to the CRI runtime behind endpoint, "unix:///path" or "/path",
// and asks it what it is and can do. ctx is for that only; it takes a few
// milliseconds, and at most 10 s.
//
// The error says what is wrong: a bad option (by name), no such socket or
// nobody listening (ErrUnavailable, worth another try), something that speaks
// no CRI v1, or a runtime that is not ready (*NotReadyError, worth another
// try). A network that is not ready is no error here: pods on the host's
// network can run. See Ready.
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
	r := &Runtime{
		opts:   opts,
		conn:   conn,
		cri:    api.NewRuntimeServiceClient(conn),
		images: api.NewImageServiceClient(conn),
		files:  files{root: opts.Root},
		log:    opts.Logger,
	}
	r.mu.sandboxes = make(map[runtime.SandboxID]*sandbox)
	r.mu.starts = make(map[string]*start)
	r.mu.lost = make(map[string]bool)
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
		return &watchingRuntime{Runtime: r}, nil
	}
	return r, nil
}

// connect prepares the connection; it is made by the first call and again
// whenever it breaks.
func connect(path string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///cri",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}),
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		// A runtime that comes back is found within a second.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	)
}

// Close implements Backend.
func (r *Runtime) Close() error { return r.conn.Close() }

// Name is the runtime's own word for itself: "containerd" or "cri-o".
func (r *Runtime) Name() string { return r.info.Name }

// Info implements Backend.
func (r *Runtime) Info() Info { return r.info.clone() }
