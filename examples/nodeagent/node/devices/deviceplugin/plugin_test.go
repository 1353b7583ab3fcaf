// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	plugins "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/deviceplugin"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
	"github.com/keelson-dev/keelson/internal/grpcunix"
	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
)

const gpu = "example.com/gpu"

// stub is a plug-in that serves both protocols on a socket.
type stub struct {
	plugins.UnimplementedDevicePluginServer
	registration.UnimplementedRegistrationServer
	server   *grpc.Server
	kind     string
	versions []string
	stops    chan struct{} // closed: the stream of devices ends
	fails    atomic.Bool   // the call for the options fails
	told     chan *registration.RegistrationStatus
}

func newStub(t *testing.T, path string) *stub {
	s := &stub{
		server: grpc.NewServer(), kind: deviceplugin.Type, versions: []string{plugins.Version},
		stops: make(chan struct{}), told: make(chan *registration.RegistrationStatus, 10),
	}
	plugins.RegisterDevicePluginServer(s.server, s)
	registration.RegisterRegistrationServer(s.server, s)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	var served sync.WaitGroup
	served.Go(func() { _ = s.server.Serve(l) })
	t.Cleanup(func() {
		s.server.Stop()
		served.Wait()
	})
	return s
}

func (s *stub) GetDevicePluginOptions(context.Context, *plugins.Empty) (*plugins.DevicePluginOptions, error) {
	if s.fails.Load() {
		return nil, errors.New("no options today")
	}
	return &plugins.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true}, nil
}

func (s *stub) ListAndWatch(_ *plugins.Empty, stream grpc.ServerStreamingServer[plugins.ListAndWatchResponse]) error {
	list := []*plugins.Device{{ID: "a", Health: plugins.Healthy, Topology: &plugins.TopologyInfo{Nodes: []*plugins.NUMANode{{ID: 1}}}}, {ID: "b", Health: plugins.Unhealthy}}
	if err := stream.Send(&plugins.ListAndWatchResponse{Devices: list}); err != nil {
		return err
	}
	select {
	case <-s.stops:
		return errors.New("stopped")
	case <-stream.Context().Done():
		return nil
	}
}

func (s *stub) GetPreferredAllocation(_ context.Context, r *plugins.PreferredAllocationRequest) (*plugins.PreferredAllocationResponse, error) {
	c := r.ContainerRequests[0]
	return &plugins.PreferredAllocationResponse{ContainerResponses: []*plugins.ContainerPreferredAllocationResponse{
		{DeviceIDs: append(c.MustIncludeDeviceIDs, c.AvailableDeviceIDs[:c.AllocationSize]...)},
	}}, nil
}

func (s *stub) Allocate(_ context.Context, r *plugins.AllocateRequest) (*plugins.AllocateResponse, error) {
	ids := r.ContainerRequests[0].DevicesIds
	if ids[0] == "empty" {
		return &plugins.AllocateResponse{}, nil
	}
	return &plugins.AllocateResponse{ContainerResponses: []*plugins.ContainerAllocateResponse{{Envs: map[string]string{"GPUS": fmt.Sprint(ids)}}}}, nil
}

func (s *stub) PreStartContainer(context.Context, *plugins.PreStartContainerRequest) (*plugins.PreStartContainerResponse, error) {
	return nil, errors.New("not today")
}

func (s *stub) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: s.kind, Name: gpu, SupportedVersions: s.versions}, nil
}

func (s *stub) NotifyRegistrationStatus(_ context.Context, r *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	s.told <- r
	return &registration.RegistrationStatusResponse{}, nil
}

// node receives the plug-ins, in place of a devices.Manager.
type node struct {
	dir    string
	server *deviceplugin.Server
	lists  chan []ledger.Device
	ends   chan error
	plugin chan devices.Plugin
}

func newNode(t *testing.T) *node {
	n := &node{dir: filepath.Join(t.TempDir(), "plugins"), lists: make(chan []ledger.Device, 10), ends: make(chan error, 10), plugin: make(chan devices.Plugin, 10)}
	require.NoError(t, os.Mkdir(n.dir, 0o750))
	stale, err := net.Listen("unix", filepath.Join(n.dir, "stale.sock"))
	require.NoError(t, err)
	defer stale.Close()
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, "kubelet_internal_checkpoint"), nil, 0o600))
	n.server, err = deviceplugin.Listen(n.dir, deviceplugin.Options{Follow: func(ctx context.Context, resource string, p devices.Plugin) error {
		n.plugin <- p
		err := p.Watch(ctx, func(list []ledger.Device) { n.lists <- list })
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		n.ends <- err
		return err
	}})
	require.NoError(t, err)
	n.run(t, n.server.Serve)
	return n
}

func (n *node) run(t *testing.T, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
}

func (n *node) register(t *testing.T, r *plugins.RegisterRequest) error {
	conn, err := grpcunix.NewClient(filepath.Join(n.dir, deviceplugin.SocketName), 1<<20)
	require.NoError(t, err)
	defer conn.Close()
	_, err = plugins.NewRegistrationClient(conn).Register(t.Context(), r)
	return err
}

var wantDevices = []ledger.Device{{ID: "a", Healthy: true, NUMA: []int64{1}}, {ID: "b"}}

func TestRegister(t *testing.T) {
	n := newNode(t)
	require.NoFileExists(t, filepath.Join(n.dir, "stale.sock"))
	require.FileExists(t, filepath.Join(n.dir, "kubelet_internal_checkpoint"))
	s := newStub(t, filepath.Join(n.dir, "gpu.sock"))
	require.NoError(t, n.register(t, &plugins.RegisterRequest{Version: plugins.Version, Endpoint: "gpu.sock", ResourceName: gpu}))
	require.Equal(t, wantDevices, <-n.lists)
	p := <-n.plugin
	ids, err := p.Prefer(t.Context(), ledger.Choice{Available: []string{"x", "y"}, MustInclude: []string{"z"}, Size: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"z", "x"}, ids)
	answer, err := p.Allocate(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	require.Equal(t, "[a b]", answer.Envs["GPUS"])
	_, err = p.Allocate(t.Context(), []string{"empty"})
	require.ErrorContains(t, err, "no containers in response")
	require.ErrorContains(t, p.PreStart(t.Context(), []string{"a"}), "not today")
	close(s.stops)
	require.ErrorContains(t, <-n.ends, "stopped")
	require.NoError(t, n.server.Check(t.Context()))
}

func TestRefusedRegistrations(t *testing.T) {
	n := newNode(t)
	newStub(t, filepath.Join(n.dir, "gpu.sock"))
	newStub(t, filepath.Join(n.dir, "failing.sock")).fails.Store(true)
	for want, r := range map[string]*plugins.RegisterRequest{
		`requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]`: {Version: "v1alpha", Endpoint: "gpu.sock", ResourceName: gpu},
		`the ResourceName "gpu" is invalid`:               {Version: plugins.Version, Endpoint: "gpu.sock", ResourceName: "gpu"},
		`the ResourceName "kubernetes.io/gpu" is invalid`: {Version: plugins.Version, Endpoint: "gpu.sock", ResourceName: "kubernetes.io/gpu"},
		`the endpoint "../gpu.sock" is invalid`:           {Version: plugins.Version, Endpoint: "../gpu.sock", ResourceName: gpu},
		// Upstream's spec looks for these words.
		"failed to get device plugin options: rpc error: code = Unknown desc = no options today": {Version: plugins.Version, Endpoint: "failing.sock", ResourceName: gpu},
		`the endpoint "kubelet.sock" is invalid`:                                                 {Version: plugins.Version, Endpoint: "kubelet.sock", ResourceName: gpu},
	} {
		require.ErrorContains(t, n.register(t, r), want)
	}
	require.Empty(t, n.plugin)
}

func TestListen(t *testing.T) {
	n := newNode(t)
	follow := func(context.Context, string, devices.Plugin) error { return nil }
	_, err := deviceplugin.Listen(n.dir, deviceplugin.Options{Follow: follow})
	require.ErrorContains(t, err, "another kubelet serves device plug-ins on "+n.dir)
	_, err = deviceplugin.Listen("plugins", deviceplugin.Options{Follow: follow})
	require.ErrorContains(t, err, "absolute path")
	_, err = deviceplugin.Listen(filepath.Join(n.dir, fmt.Sprintf("%0100d", 1)), deviceplugin.Options{Follow: follow})
	require.ErrorContains(t, err, "and the system allows 107")
	_, err = deviceplugin.Listen(n.dir, deviceplugin.Options{})
	require.ErrorContains(t, err, "Options.Follow")
}

// A plug-in in the folder of the watcher is registered when its socket appears, and unregistered when
// the socket is removed.
func TestWatcher(t *testing.T) {
	n := newNode(t)
	dir := filepath.Join(t.TempDir(), "registry")
	w, err := deviceplugin.NewWatcher(dir, deviceplugin.WatcherOptions{
		Hinter: fsnotify.Hinter{}, Handlers: map[string]deviceplugin.Handler{deviceplugin.Type: n.server},
	})
	require.NoError(t, err)
	newStub(t, filepath.Join(dir, ".hidden.sock"))
	early := newStub(t, filepath.Join(dir, "early.sock"))
	n.run(t, w.Run)
	require.True(t, (<-early.told).PluginRegistered)
	require.Equal(t, wantDevices, <-n.lists)
	require.NoError(t, os.Remove(filepath.Join(dir, "early.sock")))
	require.ErrorIs(t, <-n.ends, devices.ErrUnregistered)

	late := newStub(t, filepath.Join(dir, "late.sock"))
	require.True(t, (<-late.told).PluginRegistered)
	require.Equal(t, wantDevices, <-n.lists)
	close(late.stops)
	require.ErrorContains(t, <-n.ends, "stopped")
	require.Equal(t, wantDevices, <-n.lists, "registered again")
}

func TestRefusedByTheWatcher(t *testing.T) {
	n := newNode(t)
	dir := filepath.Join(t.TempDir(), "registry")
	w, err := deviceplugin.NewWatcher(dir, deviceplugin.WatcherOptions{
		Hinter: fsnotify.Hinter{}, Handlers: map[string]deviceplugin.Handler{deviceplugin.Type: n.server},
	})
	require.NoError(t, err)
	other, old := newStub(t, filepath.Join(dir, "csi.sock")), newStub(t, filepath.Join(dir, "old.sock"))
	other.kind, old.versions = registration.CSIPlugin, []string{"v1alpha"}
	n.run(t, w.Run)
	status := <-other.told
	require.False(t, status.PluginRegistered)
	require.Equal(t, `plug-ins of type "CSIPlugin" are not supported`, status.Error)
	require.Contains(t, (<-old.told).Error, `requested API version "v1alpha" is not supported`)
}

func Example() {
	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	manager, err := devices.New(devices.Options{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := deviceplugin.Listen(dir, deviceplugin.Options{Follow: manager.Follow})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	stop() // at once
	fmt.Println(server.Serve(ctx))
	// Output: <nil>
}
