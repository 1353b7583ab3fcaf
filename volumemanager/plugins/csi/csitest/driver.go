// SPDX-License-Identifier: Apache-2.0

package csitest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// DefaultName is the driver's name, unless Options say another.
const DefaultName = "folders.csi.example.com"

// ErrRunning says that Run was called twice.
var ErrRunning = errors.New("csitest: Run was called before")

// Call is one request that the driver got.
type Call struct {
	// Method is its name, "NodePublishVolume".
	Method string
	// Request is the message. It is shared and not written to.
	Request proto.Message
	// Err is what was answered.
	Err error
}

// Options are the options of New.
type Options struct {
	// Dir holds the volumes. It must exist. Required.
	Dir string
	// Socket is where to listen; a file that is there is removed. At most about 100 bytes. Required.
	Socket string
	// Name is the driver's. Defaults to DefaultName.
	Name string
	// NodeID is what it calls this node. Defaults to "node".
	NodeID string
	// MaxVolumes is how many volumes it takes on this node. Defaults to any number.
	MaxVolumes int64
	// Topology is from where on the node its volumes may be. Defaults to everywhere.
	Topology map[string]string
	// Capabilities are what its node service says it can do. It does what it says. Defaults to
	// STAGE_UNSTAGE_VOLUME.
	Capabilities []csi.NodeServiceCapability_RPC_Type
	// Mounter makes the bind mounts. Defaults to mount.Detect().
	Mounter mount.Mounter
	// Fault is asked before each call but NodeGetCapabilities; its error, best one of package status, is the answer,
	// and nothing is done. After is asked when the work is done: its error is the answer all the same. Both are called
	// concurrently. Defaults to no faults.
	Fault, After func(method string, request proto.Message) error
}

// Driver is a CSI driver. See New.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	options   Options
	listening chan struct{}
	mu        struct {
		sync.Mutex
		running bool
		calls   []Call
	}
}

// New returns a driver that does not listen yet. An error names the option that is wrong.
func New(o Options) (*Driver, error) {
	if !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("csitest: Options.Dir %q is not absolute", o.Dir)
	}
	if !filepath.IsAbs(o.Socket) {
		return nil, fmt.Errorf("csitest: Options.Socket %q is not absolute", o.Socket)
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.NodeID == "" {
		o.NodeID = "node"
	}
	if o.Capabilities == nil {
		o.Capabilities = []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	}
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	none := func(string, proto.Message) error { return nil }
	if o.Fault == nil {
		o.Fault = none
	}
	if o.After == nil {
		o.After = none
	}
	return &Driver{options: o, listening: make(chan struct{})}, nil
}

// Listening is closed once the driver can be called.
func (d *Driver) Listening() <-chan struct{} { return d.listening }

// Run serves until ctx ends, waits for the calls under way, and returns nil; or the error that keeps it from serving.
func (d *Driver) Run(ctx context.Context) error {
	d.mu.Lock()
	again := d.mu.running
	d.mu.running = true
	d.mu.Unlock()
	if again {
		return ErrRunning
	}
	if err := os.Remove(d.options.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("csitest: %w", err)
	}
	listener, err := net.Listen("unix", d.options.Socket)
	if err != nil {
		return fmt.Errorf("csitest: %w", err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterNodeServer(server, d)
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		server.GracefulStop()
	})
	close(d.listening)
	err = server.Serve(listener)
	if ctx.Err() != nil {
		wg.Wait()
		return nil
	}
	return err
}

// Calls returns the journal: all calls but NodeGetCapabilities, in the order in which they ended.
func (d *Driver) Calls() []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.calls)
}

// Methods returns the names of Calls.
func (d *Driver) Methods() []string {
	var out []string
	for _, c := range d.Calls() {
		out = append(out, c.Method)
	}
	return out
}

// Socket returns Options.Socket.
func (d *Driver) Socket() string { return d.options.Socket }

// Volume returns the folder of a volume.
func (d *Driver) Volume(handle string) string {
	return filepath.Join(d.options.Dir, "volumes", handle)
}

// intercept puts faults and the journal around each call.
func (d *Driver) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := filepath.Base(info.FullMethod)
	message, ok := request.(proto.Message)
	if !ok || method == "NodeGetCapabilities" {
		return handle(ctx, request)
	}
	err := d.options.Fault(method, message)
	var answer any
	if err == nil {
		answer, err = handle(ctx, request)
	}
	if err == nil {
		err = d.options.After(method, message)
	}
	d.mu.Lock()
	d.mu.calls = append(d.mu.calls, Call{method, message, err})
	d.mu.Unlock()
	return answer, err
}
