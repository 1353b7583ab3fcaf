// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// The server's answers about streams and stats.

func (s *server) Exec(context.Context, *api.ExecRequest) (*api.ExecResponse, error) {
	return &api.ExecResponse{Url: s.url}, nil
}

func (s *server) Attach(context.Context, *api.AttachRequest) (*api.AttachResponse, error) {
	return &api.AttachResponse{Url: s.url}, nil
}

func (s *server) PortForward(context.Context, *api.PortForwardRequest) (*api.PortForwardResponse, error) {
	return &api.PortForwardResponse{Url: s.url}, nil
}

func (s *server) ContainerStats(_ context.Context, q *api.ContainerStatsRequest) (*api.ContainerStatsResponse, error) {
	return &api.ContainerStatsResponse{Stats: s.stats[q.GetContainerId()]}, nil
}

func (s *server) ListContainerStats(context.Context, *api.ListContainerStatsRequest) (*api.ListContainerStatsResponse, error) {
	out := &api.ListContainerStatsResponse{}
	for _, st := range s.stats {
		out.Stats = append(out.Stats, st)
	}
	return out, nil
}

func (s *server) ListPodSandboxStats(context.Context, *api.ListPodSandboxStatsRequest) (*api.ListPodSandboxStatsResponse, error) {
	if s.podStats == nil {
		return nil, status.Error(codes.Unimplemented, "no such call")
	}
	return &api.ListPodSandboxStatsResponse{Stats: s.podStats}, nil
}

func (s *server) UpdateContainerResources(context.Context, *api.UpdateContainerResourcesRequest) (*api.UpdateContainerResourcesResponse, error) {
	return &api.UpdateContainerResourcesResponse{}, nil
}

func TestStreamRequests(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	s.url = "http://127.0.0.1:1/exec/token"
	var asked []any
	s.asks(func(q any) { asked = append(asked, q) })
	_, id := made(t, rt, "u1")
	asked = nil
	u, err := rt.ExecURL(t.Context(), id, []string{"ls"}, runtime.Streams{Stdin: true, Stdout: true, Stderr: true, TTY: true})
	require.NoError(t, err)
	assert.Equal(t, s.url, u.String())
	_, err = rt.AttachURL(t.Context(), id, runtime.Streams{Stderr: true})
	require.NoError(t, err)
	require.Len(t, asked, 2)
	exec, attach := asked[0].(*api.ExecRequest), asked[1].(*api.AttachRequest)
	assert.Equal(t, [...]bool{true, true, false, true}, [...]bool{exec.GetStdin(), exec.GetStdout(), exec.GetStderr(), exec.GetTty()})
	assert.Equal(t, [...]bool{false, false, true, false}, [...]bool{attach.GetStdin(), attach.GetStdout(), attach.GetStderr(), attach.GetTty()})
	assert.Equal(t, []string{"ls"}, exec.GetCmd())
}

func TestStreamsThatAreRefused(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	s.url = "http://127.0.0.1:1/exec/token"
	sb, id := made(t, rt, "u1")
	for name, streams := range map[string]runtime.Streams{"none": {}, "a terminal's standard error": {Stderr: true, TTY: true}} {
		_, err := rt.ExecURL(t.Context(), id, []string{"ls"}, streams)
		assert.ErrorIs(t, err, errNoStream, name)
		_, err = rt.AttachURL(t.Context(), id, streams)
		assert.ErrorIs(t, err, errNoStream, name)
	}
	_, err := rt.ExecURL(t.Context(), id, nil, runtime.Streams{Stdout: true})
	assert.ErrorIs(t, err, errNoCommand)
	for _, port := range []int32{-1, 0, 65536} {
		_, err = rt.PortForwardURL(t.Context(), sb, []int32{80, port})
		assert.ErrorContains(t, err, "is no port")
	}
	assert.Zero(t, s.count("Exec")+s.count("Attach")+s.count("PortForward"))
	for _, answer := range []string{"", "/exec/secret", "ftp://host/secret", "http:///secret", "http://host/%secret"} {
		s.mu.Lock()
		s.url = answer
		s.mu.Unlock()
		_, err = rt.PortForwardURL(t.Context(), sb, nil)
		require.Error(t, err, answer)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestStatsOf(t *testing.T) {
	labels := func(uid, container string) map[string]string {
		return map[string]string{containermeta.LabelPodUID: uid, containermeta.LabelPodNamespace: "ns", containermeta.LabelPodName: "pod-" + uid, containermeta.LabelContainerName: container}
	}
	n := func(n uint64) *api.UInt64Value { return &api.UInt64Value{Value: n} }
	container := func(uid, name string, at int64) *api.ContainerStats {
		return &api.ContainerStats{
			Attributes:    &api.ContainerAttributes{Id: "id-" + name, Labels: labels(uid, name)},
			Cpu:           &api.CpuUsage{Timestamp: at, UsageCoreNanoSeconds: n(7)},
			Memory:        &api.MemoryUsage{Timestamp: at, UsageBytes: n(9), WorkingSetBytes: n(8)},
			WritableLayer: &api.FilesystemUsage{Timestamp: 5, FsId: &api.FilesystemIdentifier{Mountpoint: "/m"}, UsedBytes: n(3), InodesUsed: n(2)},
		}
	}
	sandbox := func(uid, id string, cpu *api.CpuUsage) *api.PodSandboxStats {
		return &api.PodSandboxStats{Attributes: &api.PodSandboxAttributes{Id: id, Labels: labels(uid, "")}, Linux: &api.LinuxPodSandboxStats{Cpu: cpu}}
	}
	answer, err := proto.Marshal(&api.ListPodSandboxStatsResponse{Stats: []*api.PodSandboxStats{
		sandbox("u1", "new", &api.CpuUsage{Timestamp: 4, UsageCoreNanoSeconds: n(6)}), sandbox("u1", "old", nil), sandbox("", "crictl's", nil),
	}})
	require.NoError(t, err)
	pods, containers, err := decodePodStats("containerd", answer, 7)
	require.NoError(t, err)
	for _, c := range []*api.ContainerStats{container("u1", "b", 4), container("u1", "a", 4), container("u1", "ended", 0), container("u2", "main", 4), container("", "crictl's", 4)} {
		containers = append(containers, containerUsageOf("containerd", c))
	}
	got := podStatsOf(pods, containers)
	require.Len(t, got, 2)
	assert.Equal(t, "ns/pod-u1 new", got[0].Namespace+"/"+got[0].Name+" "+string(got[0].Sandbox))
	assert.Equal(t, stats.CPU{At: time.Unix(0, 4), UsageNanoseconds: 6}, got[0].CPU)
	assert.Zero(t, got[0].Memory)
	assert.Zero(t, got[0].Network)
	require.Len(t, got[0].Containers, 2)
	assert.Equal(t, stats.Container{
		ID: runtime.ContainerID{Runtime: "containerd", ID: "id-a"}, Name: "a",
		CPU:           stats.CPU{At: time.Unix(0, 4), UsageNanoseconds: 7},
		Memory:        stats.Memory{At: time.Unix(0, 4), Usage: 9, WorkingSet: 8},
		WritableLayer: stats.FileSystem{At: time.Unix(0, 5), Mountpoint: "/m", UsedBytes: 3, InodesUsed: 2},
	}, got[0].Containers[0])
	assert.Equal(t, "b", got[0].Containers[1].Name)
	assert.Empty(t, got[1].Sandbox)
	assert.Equal(t, stats.CPU{}, cpuStatsOf(&api.CpuUsage{Timestamp: 4}), "a time without a value")
	assert.Equal(t, stats.Memory{}, memoryStatsOf(&api.MemoryUsage{Timestamp: 4, RssBytes: n(1)}))
}

func TestMemoryUsageThatIsNotTold(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := running(t, rt, "u1")
	_, err := rt.MemoryUsage(t.Context(), id)
	assert.ErrorContains(t, err, "not running")
	s.mu.Lock()
	s.stats = map[string]*api.ContainerStats{id.ID: {
		Attributes: &api.ContainerAttributes{Id: id.ID, Labels: map[string]string{containermeta.LabelPodUID: "u1"}},
		Memory:     &api.MemoryUsage{Timestamp: 1, WorkingSetBytes: &api.UInt64Value{Value: 5}},
	}}
	s.mu.Unlock()
	_, err = rt.MemoryUsage(t.Context(), id)
	assert.ErrorIs(t, err, runtime.ErrUnsupported, "a working set is less than what counts")

	// Pod-level stats are reported if present. The containers' stats do not depend on them.
	pods, err := rt.ListStats(t.Context())
	require.NoError(t, err, "it has no ListPodSandboxStats")
	require.Len(t, pods, 1)
	assert.EqualValues(t, 5, pods[0].Containers[0].Memory.WorkingSet)
	s.fail("ListContainerStats", codes.Unknown, "no")
	_, err = rt.ListStats(t.Context())
	assert.ErrorContains(t, err, "no")
	s.inTheWay(func(context.Context, string) error { return status.Error(codes.NotFound, "no such container") })
	_, err = rt.ContainerStats(t.Context(), id)
	assert.ErrorIs(t, err, runtime.ErrNotFound)
}

// The stats of pods have those of their containers: they are not asked for again.
func TestContainersOfPodsAreAskedForOnce(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := running(t, rt, "u1")
	labels := map[string]string{containermeta.LabelPodUID: "u1"}
	container := &api.ContainerStats{
		Attributes: &api.ContainerAttributes{Id: id.ID, Labels: labels}, Memory: &api.MemoryUsage{Timestamp: 1, WorkingSetBytes: &api.UInt64Value{Value: 5}},
	}
	pod := &api.PodSandboxStats{
		Attributes: &api.PodSandboxAttributes{Id: "sandbox", Labels: labels},
		Linux:      &api.LinuxPodSandboxStats{Cpu: &api.CpuUsage{Timestamp: 1, UsageCoreNanoSeconds: &api.UInt64Value{Value: 7}}, Containers: []*api.ContainerStats{container}},
	}
	list := func(pods ...*api.PodSandboxStats) []stats.Pod {
		t.Helper()
		s.mu.Lock()
		s.podStats = pods
		s.mu.Unlock()
		all, err := rt.ListStats(t.Context())
		require.NoError(t, err)
		return all
	}
	got := list(pod)
	require.Len(t, got, 1)
	require.Len(t, got[0].Containers, 1)
	assert.EqualValues(t, 5, got[0].Containers[0].Memory.WorkingSet)
	assert.EqualValues(t, 7, got[0].CPU.UsageNanoseconds)
	assert.Zero(t, s.count("ListContainerStats"))

	pod.Linux.Containers = nil
	s.mu.Lock()
	s.stats = map[string]*api.ContainerStats{id.ID: container}
	s.mu.Unlock()
	got = list(pod)
	require.Len(t, got[0].Containers, 1, "a runtime that leaves the containers out of the pods")
	assert.EqualValues(t, 7, got[0].CPU.UsageNanoseconds)
	assert.Equal(t, 1, s.count("ListContainerStats"))
}

// containerd 1.6 reports no container's stats while a container is being removed.
func TestStatsWhileAContainerGoes(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	stats := map[string]*api.ContainerStats{}
	for _, uid := range []string{"u1", "u2", "u3"} {
		_, id := running(t, rt, uid)
		stats[id.ID] = &api.ContainerStats{
			Attributes: &api.ContainerAttributes{Id: id.ID, Labels: map[string]string{containermeta.LabelPodUID: uid}},
			Memory:     &api.MemoryUsage{Timestamp: 1, UsageBytes: &api.UInt64Value{Value: 5}},
		}
	}
	s.mu.Lock()
	s.stats = stats
	s.mu.Unlock()
	alone := 0
	s.inTheWay(func(_ context.Context, call string) error {
		switch call {
		case "ListContainerStats":
			return status.Error(codes.NotFound, "container not found")
		case "ContainerStats":
			s.mu.Lock()
			defer s.mu.Unlock()
			if alone++; alone == 1 {
				return status.Error(codes.Unknown, "this is the one")
			}
		}
		return nil
	})
	pods, err := rt.ListStats(t.Context())
	require.NoError(t, err)
	assert.Len(t, pods, 2, "the others are told of")
	s.inTheWay(func(_ context.Context, call string) error {
		switch call {
		case "ListContainerStats":
			return status.Error(codes.NotFound, "container not found")
		case "ContainerStats":
			return status.Error(codes.Unavailable, "down")
		}
		return nil
	})
	_, err = rt.ListStats(t.Context())
	assert.ErrorIs(t, err, ErrUnavailable)
}

func TestUpdateOfWhatDoesNotRun(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := made(t, rt, "u1")
	assert.ErrorContains(t, rt.UpdateResources(t.Context(), id, v1.ResourceRequirements{}), "the container is created: not running")
	require.NoError(t, rt.StartContainer(t.Context(), id))
	require.NoError(t, rt.UpdateResources(t.Context(), id, v1.ResourceRequirements{}))
	s.edit(id, func(c *api.ContainerStatus) { exit(c, 0) })
	assert.ErrorContains(t, rt.UpdateResources(t.Context(), id, v1.ResourceRequirements{}), "the container is exited: not running")
	assert.Equal(t, 1, s.count("UpdateContainerResources"))
}
