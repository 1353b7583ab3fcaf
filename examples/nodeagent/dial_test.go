// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// late is a container runtime that only supports the requests Version and Status.
type late struct {
	api.UnimplementedRuntimeServiceServer
	api.UnimplementedImageServiceServer
}

func (late) Version(context.Context, *api.VersionRequest) (*api.VersionResponse, error) {
	return &api.VersionResponse{RuntimeName: "late", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

func (late) Status(context.Context, *api.StatusRequest) (*api.StatusResponse, error) {
	return &api.StatusResponse{Status: &api.RuntimeStatus{Conditions: []*api.RuntimeCondition{{Type: api.RuntimeReady, Status: true}}}}, nil
}

// At boot the agent may start before its container runtime.
func TestAContainerRuntimeThatComesLaterIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	server := grpc.NewServer()
	api.RegisterRuntimeServiceServer(server, late{})
	api.RegisterImageServiceServer(server, late{})
	served := make(chan error, 1)
	time.AfterFunc(dialPause, func() {
		l, err := net.Listen("unix", socket)
		if err == nil {
			err = server.Serve(l)
		}
		served <- err
	})
	backend, err := dial(t.Context(), flags{endpoint: "unix://" + socket, root: dir}, nil, zap.NewNop())
	require.NoError(t, err)
	require.Equal(t, "late", backend.Info().Name)
	require.NoError(t, backend.Close())
	server.Stop()
	require.NoError(t, <-served)
}

func TestAWaitForAContainerRuntimeCanBeEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dial(ctx, flags{endpoint: "unix://" + filepath.Join(t.TempDir(), "s"), root: t.TempDir()}, nil, zap.NewNop())
	require.Error(t, err)
}
