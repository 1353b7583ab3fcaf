// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// register has the API server know this node, and that it lives.
func (m *membership) register(f flags, config *rest.Config, core *corev1.CoreV1Client, tell news, log *zap.Logger) error {
	leases, err := coordination.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	n := &node{flags: f, news: tell}
	reporter, err := nodestatus.New(nodestatus.Options{
		NodeName: f.node,
		Nodes:    core.Nodes(),
		Leases:   leases.Leases(v1.NamespaceNodeLease),
		Facts:    n.facts,
		Labels:   f.offer.labels,
		Taints:   f.offer.taints,
		Events:   m.cluster.Events,
		Logger:   log,
	})
	if err != nil {
		return err
	}
	m.run = together(m.run, reporter.Run)
	m.ending = func() {
		n.ending.Store(true)
		reporter.Poke()
	}
	return nil
}

// node is what this node tells of itself.
type node struct {
	flags   flags
	news    news
	machine host.Machine
	ending  atomic.Bool
}

// readyPatience is how long the agent and the runtime may take to say that all is
// well.
const readyPatience = 2 * time.Second

func (n *node) facts(ctx context.Context) nodestatus.Facts {
	agent := n.news.agent()
	f := nodestatus.Facts{
		Capacity:    n.flags.offer.capacity,
		Allocatable: n.flags.offer.allocatable,
		Addresses:   addresses(n.flags.node, hostIPs()),
		Info:        n.machine.System(runtimeVersion(n.news.runtime)),
		Usage:       n.usage(),
		Images:      agent.Images(),
	}
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	f.NotReady = agent.Ready(ctx)
	if backend, ok := n.news.runtime.(cri.Backend); ok && f.NotReady == nil {
		f.NotReady = backend.Ready(ctx)
	}
	if n.ending.Load() && !n.flags.keepPods {
		f.NotReady = errors.New("the node agent is stopping its pods")
	}
	return f
}

// usage is what the node is short of, if anything: memory, the file systems of
// the pods' files and logs, and processes.
func (n *node) usage() (u nodestatus.Usage) {
	u.MemoryBytes, u.MemoryAvailableBytes = n.machine.Memory()
	u.ProcessIDs, u.ProcessIDsInUse = n.machine.ProcessIDs()
	for _, folder := range []string{n.flags.root, n.flags.logs} {
		d := nodestatus.Disk{AvailablePercentMin: nodestatus.MinNodeDiskPercent}
		if d.Bytes, d.AvailableBytes, d.Inodes, d.InodesFree = host.Disk(existing(folder)); d.Bytes > 0 {
			u.Disks = append(u.Disks, d)
		}
	}
	return u
}

// runtimeVersion is in the form of the kubelet's, as "containerd://2.1.0".
func runtimeVersion(rt runtime.Runtime) string {
	if backend, ok := rt.(cri.Backend); ok {
		return backend.Info().Name + "://" + backend.Info().Version
	}
	return rt.Name() + "://" + host.Version()
}

func addresses(name string, ips []string) (all []v1.NodeAddress) {
	for _, ip := range ips {
		if parsed := net.ParseIP(ip); parsed != nil && !parsed.IsLoopback() {
			all = append(all, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
		}
	}
	return append(all, v1.NodeAddress{Type: v1.NodeHostName, Address: name})
}
