// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"errors"
	"sync/atomic"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/internal/kubeclient"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// register lets m.run register the node with the API server and renew the node's lease.
func (m *membership) register(f flags, client *kubeclient.Client, tell news, log *zap.Logger) error {
	n := &thisNode{flags: f, news: tell}
	opts := nodestatus.Options{
		NodeName: f.node,
		Nodes:    client.Nodes(),
		Leases:   client.Leases(v1.NamespaceNodeLease),
		Facts:    n.facts,
		Labels:   f.offer.labels,
		Taints:   f.offer.taints,
		Events:   m.cluster.Events,
		Logger:   log,
	}
	f.status.apply(&opts)
	reporter, err := nodestatus.New(opts)
	if err != nil {
		return err
	}
	tell.evictor.changed = reporter.Poke
	tell.devices.changed = reporter.Poke
	m.run = together(m.run, reporter.Run)
	m.ending = func() {
		n.ending.Store(true)
		reporter.Poke()
	}
	return nil
}

// thisNode provides the facts of this node for package nodestatus.
type thisNode struct {
	flags   flags
	news    news
	machine host.Machine
	ending  atomic.Bool
}

func (n *thisNode) facts(ctx context.Context) nodestatus.Facts {
	agent := n.news.agent()
	capacity, allocatable := n.news.devices.resources(n.flags.offer.capacity, n.flags.offer.allocatable)
	f := nodestatus.Facts{
		Capacity:    capacity,
		Allocatable: allocatable,
		IsNew:       n.news.devices.isNew,
		Addresses:   nodeAddresses(n.flags.node, n.flags.hostIPs(ctx)),
		Info:        n.machine.System(),
		Pressure:    n.news.evictor.pressure(),
		KubeletPort: int32(n.flags.server.port),

		DeclaredFeatures: n.flags.declaredFeatures(),
	}
	f.Info.KubeletVersion = n.flags.version
	if n.flags.status.images != 0 {
		f.Images = agent.Images()
	}
	describeRuntime(&f, n.news.runtime)
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	f.NotReady = agent.Ready(ctx)
	if backend, ok := n.news.runtime.(cri.Backend); ok && f.NotReady == nil {
		f.NotReady = runtimeNotReady(backend.Ready(ctx))
	}
	if n.ending.Load() && n.flags.stopsPods() {
		f.NotReady = errors.New("node is shutting down")
	}
	return f
}
