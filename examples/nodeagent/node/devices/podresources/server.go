// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
	"github.com/keelson-dev/keelson/internal/grpcunix"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Limits of the calls, as in the kubelet.
const (
	callsPerSecond = 100
	callsAtOnce    = 10
)

// Devices knows the devices of pods. *devices.Manager implements Devices. The methods are safe for
// concurrent use.
type Devices interface {
	// Of returns the devices of a pod.
	Of(uid types.UID) []ledger.Holding
	// Healthy returns the healthy devices of each resource.
	Healthy() map[string][]ledger.Device
}

// Options configure a Server.
type Options struct {
	// Pods returns the active pods. The pods are not written. Required.
	Pods func() []*v1.Pod
	// Devices knows the devices of pods. Required.
	Devices Devices
	// Called is called after each call, with the method: List, Get or GetAllocatableResources.
	// Defaults to nil.
	Called func(method string, err error)
}

// Server is the PodResources API.
type Server struct {
	api.UnimplementedPodResourcesListerServer
	opts     Options
	listener net.Listener
	limit    *rate.Limiter
}

// Listen makes the folder of the socket at path and listens there. A socket of an earlier agent is
// replaced. Clients wait for Serve. The error names the path or the invalid option.
func Listen(path string, o Options) (*Server, error) {
	switch {
	case !filepath.IsAbs(path):
		return nil, fmt.Errorf("podresources: socket %q: want an absolute path", path)
	case o.Pods == nil:
		return nil, errors.New("podresources: Options.Pods is required")
	case o.Devices == nil:
		return nil, errors.New("podresources: Options.Devices is required")
	}
	if o.Called == nil {
		o.Called = func(string, error) {}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("podresources: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("podresources: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("podresources: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, fmt.Errorf("podresources: %w", err)
	}
	return &Server{opts: o, listener: listener, limit: rate.NewLimiter(callsPerSecond, callsAtOnce)}, nil
}

// Serve answers calls until ctx ends. It can be called once.
func (s *Server) Serve(ctx context.Context) error {
	server := grpc.NewServer(grpc.UnaryInterceptor(s.admit))
	api.RegisterPodResourcesListerServer(server, s)
	v1alpha1.RegisterPodResourcesListerServer(server, &alpha{server: s})
	return grpcunix.Serve(ctx, server, s.listener)
}

// admit limits the rate of calls.
func (s *Server) admit(ctx context.Context, request any, call *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	if !s.limit.Allow() {
		return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
	}
	answer, err = handle(ctx, request)
	s.opts.Called(filepath.Base(call.FullMethod), err)
	return answer, err
}

// List implements the API.
func (s *Server) List(context.Context, *api.ListPodResourcesRequest) (*api.ListPodResourcesResponse, error) {
	answer := &api.ListPodResourcesResponse{}
	for _, pod := range s.opts.Pods() {
		answer.PodResources = append(answer.PodResources, s.resources(pod))
	}
	return answer, nil
}

// Get implements the API.
func (s *Server) Get(_ context.Context, r *api.GetPodResourcesRequest) (*api.GetPodResourcesResponse, error) {
	for _, pod := range s.opts.Pods() {
		if pod.Name == r.PodName && pod.Namespace == r.PodNamespace {
			return &api.GetPodResourcesResponse{PodResources: s.resources(pod)}, nil
		}
	}
	return nil, fmt.Errorf("pod %s in namespace %s not found", r.PodName, r.PodNamespace)
}

// GetAllocatableResources implements the API.
func (s *Server) GetAllocatableResources(context.Context, *api.AllocatableResourcesRequest) (*api.AllocatableResourcesResponse, error) {
	healthy := s.opts.Devices.Healthy()
	answer := &api.AllocatableResourcesResponse{}
	for _, resource := range slices.Sorted(maps.Keys(healthy)) {
		answer.Devices = append(answer.Devices, messages(resource, healthy[resource])...)
	}
	return answer, nil
}

// resources returns the devices of a pod's sidecars and regular containers.
func (s *Server) resources(pod *v1.Pod) *api.PodResources {
	byContainer := map[string][]*api.ContainerDevices{}
	for _, h := range s.opts.Devices.Of(pod.UID) {
		byContainer[h.Container] = append(byContainer[h.Container], messages(h.Resource, h.Devices)...)
	}
	answer := &api.PodResources{Name: pod.Name, Namespace: pod.Namespace}
	add := func(c *v1.Container) {
		answer.Containers = append(answer.Containers, &api.ContainerResources{Name: c.Name, Devices: byContainer[c.Name]})
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(c) {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return answer
}

// messages returns a message for each device.
func messages(resource string, devices []ledger.Device) (all []*api.ContainerDevices) {
	for _, d := range devices {
		m := &api.ContainerDevices{ResourceName: resource, DeviceIds: []string{d.ID}}
		for _, node := range d.NUMA {
			if m.Topology == nil {
				m.Topology = &api.TopologyInfo{}
			}
			m.Topology.Nodes = append(m.Topology.Nodes, &api.NUMANode{ID: node})
		}
		all = append(all, m)
	}
	return all
}
