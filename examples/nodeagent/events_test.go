// SPDX-License-Identifier: Apache-2.0

//go:build !nolocalapi

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
)

// The API server's events keep their annotations beside the API of the agent: upstream's specs of
// evictions read starved_resource.
func TestTheLocalAPILeavesTheAnnotationsOfEvents(t *testing.T) {
	server := record.NewFakeRecorder(1)
	opts := node.Options{}
	opts.Cluster.Events = server
	new(local).apply(&opts)
	host := &feature.Host{Events: opts.Cluster.Events}
	host.AnnotatedEvent(&v1.Pod{}, map[string]string{"starved_resource": "memory"}, v1.EventTypeWarning, "Evicted", "low")
	require.Equal(t, "Warning Evicted low map[starved_resource:memory]", <-server.Events)
}
