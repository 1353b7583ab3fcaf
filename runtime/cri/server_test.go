// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// server is a CRI runtime in memory behind a real socket. Its containers run until stopped. A test
// intercepts calls by fault.
type server struct {
	api.UnimplementedRuntimeServiceServer
	api.UnimplementedImageServiceServer
	socket string

	mu         sync.Mutex
	name       string
	conditions map[string]bool
	events     chan *api.ContainerEventResponse // nil: not offered

	endOfEvents error // when events is closed
	fault       func(ctx context.Context, call string) error
	asked       func(request any)
	calls       []string
	ids         int
	sandboxes   map[string]*api.PodSandboxStatus
	containers  map[string]*api.ContainerStatus
	homes       map[string]string              // sandbox of a container
	url         string                         // of every stream
	stats       map[string]*api.ContainerStats // by container ID
	podStats    []*api.PodSandboxStats         // nil: there is no such call
	lateStop    time.Duration                  // of a sandbox, behind the answer
	tasks       map[string]string              // tasks left by containerd, by container ID
	known       map[string]bool                // containers of containerd not listed by the CRI
	grpc        *grpc.Server
}

func newServer(t testing.TB) *server {
	s := &server{
		socket: filepath.Join(t.TempDir(), "cri.sock"),
		name:   "pretend",

		endOfEvents: status.Error(codes.Aborted, "the stream broke"),
		conditions:  map[string]bool{api.RuntimeReady: true, api.NetworkReady: true},
		sandboxes:   map[string]*api.PodSandboxStatus{},
		containers:  map[string]*api.ContainerStatus{},
		homes:       map[string]string{},
		tasks:       map[string]string{},
		known:       map[string]bool{},
	}
	s.listen(t)
	t.Cleanup(s.close)
	return s
}

func (s *server) listen(t testing.TB) {
	listener, err := net.Listen("unix", s.socket)
	require.NoError(t, err)
	s.grpc = grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	api.RegisterRuntimeServiceServer(s.grpc, s)
	api.RegisterImageServiceServer(s.grpc, s)
	s.grpc.RegisterService(&tasksDesc, s)
	s.grpc.RegisterService(&containersDesc, s)
	go func(g *grpc.Server) { _ = g.Serve(listener) }(s.grpc)
}

func (s *server) close() { s.grpc.Stop() }

// dial connects to s; the connection ends with the test.
func (s *server) dial(t testing.TB) Backend {
	t.Helper()
	rt, err := Dial(t.Context(), s.socket, Options{Root: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = rt.Close() })
	return rt
}

// inTheWay calls f for every call from now on; an error is the call's.
func (s *server) inTheWay(f func(ctx context.Context, call string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// asks passes every later request to f, sequentially.
func (s *server) asks(f func(request any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = f
}

// fail makes every later call of the name fail.
func (s *server) fail(call string, code codes.Code, message string) {
	s.inTheWay(func(_ context.Context, c string) error {
		if c == call {
			return status.Error(code, message)
		}
		return nil
	})
}

// count returns how often a call was made.
func (s *server) count(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (s *server) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	call := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	s.mu.Lock()
	fault := s.fault
	s.calls = append(s.calls, call)
	if s.asked != nil {
		s.asked(req)
	}
	s.mu.Unlock()
	if fault != nil {
		if err := fault(ctx, call); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return next(ctx, req)
}

func (s *server) newID() string {
	s.ids++
	return fmt.Sprintf("%064x", s.ids)
}

func (s *server) Version(context.Context, *api.VersionRequest) (*api.VersionResponse, error) {
	return &api.VersionResponse{RuntimeName: s.name, RuntimeVersion: "1.2.3", RuntimeApiVersion: "v1"}, nil
}

func (s *server) Status(context.Context, *api.StatusRequest) (*api.StatusResponse, error) {
	out := &api.RuntimeStatus{}
	for _, name := range slices.Sorted(maps.Keys(s.conditions)) {
		out.Conditions = append(out.Conditions, &api.RuntimeCondition{Type: name, Status: s.conditions[name], Reason: "Because", Message: "of the test"})
	}
	return &api.StatusResponse{Status: out}, nil
}

func (s *server) GetContainerEvents(_ *api.GetEventsRequest, stream grpc.ServerStreamingServer[api.ContainerEventResponse]) error {
	if s.events == nil {
		return status.Error(codes.Unimplemented, "no events")
	}
	for {
		select {
		case e, ok := <-s.events:
			if !ok {
				return s.endOfEvents
			}
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *server) ImageStatus(_ context.Context, q *api.ImageStatusRequest) (*api.ImageStatusResponse, error) {
	if q.GetImage().GetImage() == "absent" {
		return &api.ImageStatusResponse{}, nil
	}
	return &api.ImageStatusResponse{Image: &api.Image{Id: "sha256:1"}}, nil
}

func (s *server) PullImage(context.Context, *api.PullImageRequest) (*api.PullImageResponse, error) {
	return &api.PullImageResponse{ImageRef: "sha256:1"}, nil
}

func (s *server) RunPodSandbox(_ context.Context, q *api.RunPodSandboxRequest) (*api.RunPodSandboxResponse, error) {
	id := s.newID()
	config := q.GetConfig()
	s.sandboxes[id] = &api.PodSandboxStatus{
		Id: id, Metadata: config.GetMetadata(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		CreatedAt: time.Now().UnixNano(), Network: &api.PodSandboxNetworkStatus{Ip: "10.0.0.7"},
		Linux: &api.LinuxPodSandboxStatus{Namespaces: &api.Namespace{Options: config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
	}
	return &api.RunPodSandboxResponse{PodSandboxId: id}, nil
}

func (s *server) PodSandboxStatus(_ context.Context, q *api.PodSandboxStatusRequest) (*api.PodSandboxStatusResponse, error) {
	st := s.sandboxes[q.GetPodSandboxId()]
	if st == nil {
		return nil, status.Error(codes.NotFound, "no such sandbox")
	}
	return &api.PodSandboxStatusResponse{Status: &api.PodSandboxStatus{
		Id: st.Id, Metadata: st.Metadata, Labels: st.Labels, Annotations: st.Annotations, State: st.State,
		CreatedAt: st.CreatedAt, Network: st.Network, Linux: st.Linux,
	}}, nil
}

func matches(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (s *server) ListPodSandbox(_ context.Context, q *api.ListPodSandboxRequest) (*api.ListPodSandboxResponse, error) {
	out := &api.ListPodSandboxResponse{}
	for _, st := range s.sandboxes {
		if f := q.GetFilter(); !matches(st.GetLabels(), f.GetLabelSelector()) || f.GetState() != nil && f.GetState().GetState() != st.GetState() {
			continue
		}
		out.Items = append(out.Items, &api.PodSandbox{Id: st.GetId(), Metadata: st.GetMetadata(), State: st.GetState(), CreatedAt: st.GetCreatedAt(), Labels: st.GetLabels()})
	}
	return out, nil
}

func (s *server) StopPodSandbox(_ context.Context, q *api.StopPodSandboxRequest) (*api.StopPodSandboxResponse, error) {
	if st := s.sandboxes[q.GetPodSandboxId()]; st != nil {
		if s.lateStop == 0 {
			st.State = api.PodSandboxState_SANDBOX_NOTREADY
		}
		time.AfterFunc(s.lateStop, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			st.State = api.PodSandboxState_SANDBOX_NOTREADY
		})
	}
	return &api.StopPodSandboxResponse{}, nil
}

func (s *server) RemovePodSandbox(_ context.Context, q *api.RemovePodSandboxRequest) (*api.RemovePodSandboxResponse, error) {
	delete(s.sandboxes, q.GetPodSandboxId())
	return &api.RemovePodSandboxResponse{}, nil
}
