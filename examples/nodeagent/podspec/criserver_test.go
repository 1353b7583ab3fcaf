// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	criruntime "github.com/keelson-dev/keelson/runtime/cri"
)

// criServer is a CRI runtime that records requests without making anything.
type criServer struct {
	cri.UnimplementedRuntimeServiceServer
	cri.UnimplementedImageServiceServer
	able    bool // to do all that a runtime can
	sandbox *cri.PodSandboxConfig
	asked   []proto.Message
}

// dial starts a server and connects a backend with all permissive options.
func (s *criServer) dial(t *testing.T) criruntime.Backend {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, s)
	cri.RegisterImageServiceServer(server, s)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	opts := criruntime.Options{Root: filepath.Join(dir, "root"),
		DNS: criruntime.DNS{Servers: []string{"10.96.0.10"}, Domain: "cluster.local"}}
	if s.able {
		opts.RuntimeHandlers = map[string]string{"kata": "kata"}
		opts.UserNamespaces = func(*v1.Pod) (criruntime.IDMapping, error) {
			return criruntime.IDMapping{HostUID: 1 << 16, HostGID: 1 << 16, Length: 1 << 16}, nil
		}
	}
	backend, err := criruntime.Dial(t.Context(), socket, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = backend.Close(); server.Stop(); <-ended })
	return backend
}

func (s *criServer) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	version := "1.6.0"
	if s.able {
		version = "2.2.0"
	}
	return &cri.VersionResponse{RuntimeName: "containerd", RuntimeVersion: version, RuntimeApiVersion: "v1"}, nil
}

func (s *criServer) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	answer := &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true}}}}
	if s.able {
		answer.Features = &cri.RuntimeFeatures{SupplementalGroupsPolicy: true, UserNamespacesHostNetwork: true}
		for _, name := range []string{"", "kata"} {
			answer.RuntimeHandlers = append(answer.RuntimeHandlers, &cri.RuntimeHandler{Name: name,
				Features: &cri.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}})
		}
	}
	return answer, nil
}

func (s *criServer) ImageStatus(context.Context, *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	return &cri.ImageStatusResponse{Image: &cri.Image{Id: "sha256:1", Uid: &cri.Int64Value{Value: 1}}}, nil
}

func (s *criServer) RunPodSandbox(_ context.Context, q *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	s.sandbox, s.asked = q.GetConfig(), append(s.asked, proto.Clone(q))
	return &cri.RunPodSandboxResponse{PodSandboxId: "sandbox"}, nil
}

func (s *criServer) PodSandboxStatus(context.Context, *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{
		Id: "sandbox", Metadata: s.sandbox.GetMetadata(), Network: &cri.PodSandboxNetworkStatus{Ip: "10.0.0.7"},
		Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{Options: s.sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
	}}, nil
}

func (s *criServer) CreateContainer(_ context.Context, q *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	s.asked = append(s.asked, proto.Clone(q))
	return &cri.CreateContainerResponse{ContainerId: "container"}, nil
}

// take returns the requests since the last call, without labels and annotations, which runtimes
// return without acting on them.
func (s *criServer) take(t *testing.T) string {
	t.Helper()
	var out string
	for _, m := range s.asked {
		switch q := m.(type) {
		case *cri.RunPodSandboxRequest:
			q.Config.Labels, q.Config.Annotations = nil, nil
		case *cri.CreateContainerRequest:
			q.Config.Labels, q.Config.Annotations = nil, nil
			q.SandboxConfig.Labels, q.SandboxConfig.Annotations = nil, nil
		}
		text, err := protojson.MarshalOptions{}.Marshal(m)
		require.NoError(t, err)
		out += string(text) + "\n"
	}
	s.asked = nil
	for _, hosts := range hostsFile.FindAllStringSubmatch(out, -1) {
		if text, err := os.ReadFile(hosts[1]); err == nil {
			out += string(text)
		}
	}
	return messageFile.ReplaceAllString(out, "/message\"")
}

var (
	hostsFile   = regexp.MustCompile(`"([^"]*/etc-hosts)"`)
	messageFile = regexp.MustCompile(`/[0-9a-f]{8}"`) // a random file name
)
