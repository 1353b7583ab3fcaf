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

// DefaultName is the name of the driver.
const DefaultName = "folders.csi.example.com"

// ErrRunning is returned by a second call of Run.
var ErrRunning = errors.New("csitest: Run was called before")

// Call is a request to the driver.
type Call struct {
	// Method is the name of the method, for example "NodePublishVolume".
	Method string
	// Request is the message. It is shared; do not write to it.
	Request proto.Message
	// Err is the error in the answer.
	Err error
}

// Options are the options of New.
type Options struct {
	// Dir holds the volumes. It must exist. Required.
	Dir string
	// Socket is the path to listen at; an existing file is removed. At most about 100 bytes.
	// Required.
	Socket string
	// NodeID is the driver's ID of this node. Defaults to "node".
	NodeID string
	// MaxVolumes is the volume limit of this node. Defaults to no limit.
	MaxVolumes int64
	// Topology are node labels: volumes with this topology are accessible. Defaults to no
	// restriction.
	Topology map[string]string
	// Capabilities are the capabilities of the node service; the driver implements them. Defaults
	// to STAGE_UNSTAGE_VOLUME.
	Capabilities []csi.NodeServiceCapability_RPC_Type
	// Mounter makes the bind mounts. Defaults to mount.Detect().
	Mounter mount.Mounter
	// Fault is called before each call except NodeGetCapabilities. Its error, preferably of package
	// status, is the answer, and the call has no effect. After is called after the effect of the
	// call; its error is the answer all the same. Both are called concurrently. Default to no
	// faults.
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

// New returns a driver that does not listen yet. The error names the invalid option.
func New(o Options) (*Driver, error) {
	if !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("csitest: Options.Dir %q is not absolute", o.Dir)
	}
	if !filepath.IsAbs(o.Socket) {
		return nil, fmt.Errorf("csitest: Options.Socket %q is not absolute", o.Socket)
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

// Listening returns a channel that is closed once the driver can be called.
func (d *Driver) Listening() <-chan struct{} { return d.listening }

// Run serves until ctx ends, waits for the calls under way, and returns nil. If the driver cannot
// serve, Run returns the error.
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

// Calls returns the journal: all calls except NodeGetCapabilities, sorted by their end.
func (d *Driver) Calls() []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.calls)
}

// Methods returns the method names of Calls.
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

// intercept applies faults to each call and records the call.
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
