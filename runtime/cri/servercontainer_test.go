// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// The containers of the server.

func (s *server) CreateContainer(_ context.Context, q *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	if s.sandboxes[q.GetPodSandboxId()] == nil {
		return nil, status.Error(codes.NotFound, "no such sandbox")
	}
	id := s.newID()
	config := q.GetConfig()
	s.homes[id] = q.GetPodSandboxId()
	s.containers[id] = &api.ContainerStatus{
		Id: id, Metadata: config.GetMetadata(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		CreatedAt: time.Now().UnixNano(), Image: config.GetImage(), Mounts: config.GetMounts(),
		State: api.ContainerState_CONTAINER_CREATED,
	}
	return &api.CreateContainerResponse{ContainerId: id}, nil
}

func (s *server) StartContainer(_ context.Context, q *api.StartContainerRequest) (*api.StartContainerResponse, error) {
	c := s.containers[q.GetContainerId()]
	switch {
	case c == nil:
		return nil, status.Error(codes.NotFound, "no such container")
	case c.GetState() != api.ContainerState_CONTAINER_CREATED:
		return nil, status.Error(codes.Unknown, "container is not created")
	}
	c.State, c.StartedAt = api.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	return &api.StartContainerResponse{}, nil
}

func (s *server) StopContainer(_ context.Context, q *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	c := s.containers[q.GetContainerId()]
	if c == nil {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	if c.GetState() == api.ContainerState_CONTAINER_RUNNING {
		exit(c, 137)
	}
	return &api.StopContainerResponse{}, nil
}

func exit(c *api.ContainerStatus, code int32) {
	c.State, c.ExitCode, c.FinishedAt = api.ContainerState_CONTAINER_EXITED, code, time.Now().UnixNano()
}

func (s *server) ContainerStatus(_ context.Context, q *api.ContainerStatusRequest) (*api.ContainerStatusResponse, error) {
	c := s.containers[q.GetContainerId()]
	if c == nil {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	return &api.ContainerStatusResponse{Status: copyOf(c)}, nil
}

// copyOf returns a copy of c, because answers are written to the wire without the lock.
func copyOf(c *api.ContainerStatus) *api.ContainerStatus {
	return &api.ContainerStatus{
		Id: c.Id, Metadata: c.Metadata, Labels: c.Labels, Annotations: c.Annotations, Image: c.Image, Mounts: c.Mounts,
		State: c.State, CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, LogPath: c.LogPath,
	}
}

func (s *server) RemoveContainer(_ context.Context, q *api.RemoveContainerRequest) (*api.RemoveContainerResponse, error) {
	if _, ok := s.tasks[q.GetContainerId()]; ok {
		return nil, taskInTheWay(q.GetContainerId())
	}
	delete(s.containers, q.GetContainerId())
	return &api.RemoveContainerResponse{}, nil
}

func (s *server) ListContainers(_ context.Context, q *api.ListContainersRequest) (*api.ListContainersResponse, error) {
	out := &api.ListContainersResponse{}
	for id, c := range s.containers {
		f := q.GetFilter()
		if !matches(c.GetLabels(), f.GetLabelSelector()) || f.GetPodSandboxId() != "" && f.GetPodSandboxId() != s.homes[id] {
			continue
		}
		out.Containers = append(out.Containers, &api.Container{
			Id: id, PodSandboxId: s.homes[id], Metadata: c.GetMetadata(), State: c.GetState(), CreatedAt: c.GetCreatedAt(), Labels: c.GetLabels(),
		})
	}
	return out, nil
}

// edit changes a container behind the back of whoever looks.
func (s *server) edit(id runtime.ContainerID, f func(c *api.ContainerStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.containers[id.ID])
}

func (s *server) state(id runtime.ContainerID) api.ContainerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containers[id.ID].GetState()
}

// testPod is a plain pod with the given containers.
func testPod(uid string, containers ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "ns", Name: "pod-" + uid}}
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Image: "image"})
	}
	return pod
}

func sandboxSpecOf(pod *v1.Pod) runtime.SandboxSpec {
	return runtime.SandboxSpec{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Hostname: "host", HostNetwork: pod.Spec.HostNetwork, Pod: pod}
}

func containerSpecOf(pod *v1.Pod, name string) runtime.ContainerSpec {
	ref, _ := runtime.Find(pod, name)
	c := ref.Container(pod)
	return runtime.ContainerSpec{Name: name, Image: c.Image, Pod: pod, Container: c, Group: ref.Group}
}

// made returns a created container in its own sandbox.
func made(t testing.TB, rt Backend, uid string) (runtime.SandboxID, runtime.ContainerID) {
	t.Helper()
	pod := testPod(uid, "main")
	sb, err := rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.NoError(t, err)
	id, err := rt.CreateContainer(t.Context(), sb, containerSpecOf(pod, "main"))
	require.NoError(t, err)
	return sb, id
}
