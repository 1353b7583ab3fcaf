// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// described is a container runtime that only describes itself.
type described struct {
	cri.Backend
	info cri.Info
}

func (d described) Info() cri.Info { return d.info }

func TestDescribeRuntime(t *testing.T) {
	var f nodestatus.Facts
	describeRuntime(&f, described{info: cri.Info{Name: "containerd", Version: "v2.4.2", SupplementalGroupsPolicy: true,
		Handlers: map[string]cri.Handler{"runc": {RecursiveReadOnlyMounts: true, UserNamespaces: true}}}})
	assert.Equal(t, "containerd://2.4.2", f.Info.ContainerRuntimeVersion)
	assert.Equal(t, &v1.NodeFeatures{SupplementalGroupsPolicy: new(true)}, f.Features)
	assert.Equal(t, []v1.NodeRuntimeHandler{{Name: "runc", Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: new(true), UserNamespaces: new(false)}}},
		f.RuntimeHandlers, "pods with user namespaces are refused")
}

func TestRuntimeNotReady(t *testing.T) {
	require.NoError(t, runtimeNotReady(nil))
	require.EqualError(t, runtimeNotReady(errors.New("no such socket")), "container runtime is down: no such socket")
	network := cri.Condition{Type: "NetworkReady", Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"}
	err := runtimeNotReady(fmt.Errorf("status: %w", &cri.NotReadyError{Conditions: []cri.Condition{network}}))
	require.EqualError(t, err, "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized")
}
