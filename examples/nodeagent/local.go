// SPDX-License-Identifier: Apache-2.0

//go:build !nolocalapi

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/localapi"
	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
)

// localFlags are the flags of the API for kubectl and for the commands of this program.
type localFlags struct {
	socket string
	group  string
	port   int
}

// noSocket is the value of --socket for no local API.
const noSocket = "none"

func (l *localFlags) register(set *pflag.FlagSet) {
	set.StringVar(&l.socket, "socket", "", "unix socket for nodeagent ps, logs, exec and the like; \"none\" = do not serve (default "+defaultSocket(defaultRoot())+", or ROOT-DIR/node.sock with --root-dir)")
	set.StringVar(&l.group, "socket-group", "keelson", "group with access to the socket, besides root and the agent's user; access is permission to run commands in every container")
	set.IntVar(&l.port, "kubectl-port", 0, "port on 127.0.0.1 for kubectl, with TLS and tokens from the socket; see nodeagent kubeconfig; 0 = do not serve")
}

func (l *localFlags) complete(f *flags) error {
	switch {
	case l.port < 0 || l.port > 65535:
		return fmt.Errorf("--kubectl-port %d: want 0 to 65535", l.port)
	case l.port != 0 && l.socket == noSocket:
		return errors.New("--kubectl-port needs --socket")
	case l.port != 0 && f.once.on:
		return errors.New("--runonce serves nothing: leave out --kubectl-port")
	}
	return nil
}

// local serves the API of this node.
type local struct {
	flags    flags
	log      *zap.Logger
	events   localapi.EventLog
	restarts localapi.Restarts
	api      *localapi.API
	socket   net.Listener // nil: not served
	node     localNode
}

// newLocal listens on the socket. It returns nil if there is nothing to serve.
func newLocal(f flags, log *zap.Logger) (*local, error) {
	if f.local.socket == noSocket || f.once.on {
		return nil, nil
	}
	l := &local{flags: f, log: log}
	path := f.local.socket
	if path == "" {
		path = defaultSocket(f.root)
	}
	var err error
	if l.socket, err = localapi.Listen(path, f.local.group); err == nil {
		return l, nil
	}
	if f.local.socket == "" && f.local.port == 0 { // not asked for
		log.Warn("no socket for nodeagent ps, logs and the like; choose another --socket", zap.Error(err))
		return nil, nil
	}
	return nil, fmt.Errorf("--socket: %w", err)
}

// apply changes the options of the agent.
func (l *local) apply(opts *node.Options) {
	if l == nil {
		return
	}
	opts.Sources = l.restarts.Sources(opts.Sources...)
	others := opts.Cluster.Events
	opts.Cluster.Events = &l.events
	if others != nil {
		opts.Cluster.Events = feature.BothEvents{&l.events, others}
	}
}

// poke tells the clients that pods may have changed.
func (l *local) poke() {
	if l != nil {
		l.api.Poke()
	}
}

// start constructs the API of the agent. serve then serves until its context ends.
func (l *local) start(ctx context.Context, parts serverParts) (serve func(context.Context), err error) {
	if l == nil {
		return func(context.Context) {}, nil
	}
	f := l.flags
	l.node = localNode{local: l, parts: parts, since: metav1.Now()}
	opts := localapi.Options{
		NodeName: f.node, Pods: parts.agent.Pods, Node: l.node.object, Events: &l.events, Restarts: &l.restarts, Version: f.version,
		Ending: func() map[types.UID]bool {
			ending := map[types.UID]bool{}
			for uid, worker := range parts.agent.Workers() {
				ending[uid] = worker.Deleted
			}
			return ending
		},
	}
	if f.kubeconfig == "" {
		opts.Suffix = "-" + f.node
	}
	if info, err := os.Stat(f.manifests); err == nil && info.IsDir() {
		decoder := newDecoder(f)
		decoder.Policy = kindsPolicy(f)
		opts.Manifests = &localapi.Folder{Path: f.manifests, Decoder: decoder, Decode: newDecode(f, nil)}
	}
	mux := http.NewServeMux()
	serveMore, err := l.serveKubectl(ctx, parts, &opts, mux)
	if err != nil {
		return nil, err
	}
	if l.api, err = localapi.New(opts); err != nil {
		return nil, err
	}
	mux.Handle("/", l.api)
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { _ = l.api.Run(ctx) })
		wg.Go(func() { serveMore(ctx) })
		if err := localapi.Serve(ctx, l.socket, localapi.Peers(f.local.group, mux)); err != nil {
			l.log.Error("the socket is not served any more", zap.Error(err))
		}
	}, nil
}

// localNode is the Node object of a node without an API server.
type localNode struct {
	local   *local
	parts   serverParts
	machine host.Machine
	since   metav1.Time

	mu struct {
		sync.Mutex
		ready   v1.ConditionStatus
		changed metav1.Time
	}
}

func (n *localNode) object() *v1.Node {
	f := n.local.flags
	ctx, cancel := context.WithTimeout(context.Background(), readyPatience)
	defer cancel()
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "the agent and the runtime answer"}
	if err := n.parts.agent.Ready(ctx); err != nil {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, "KubeletNotReady", err.Error()
	}
	n.mu.Lock()
	if n.mu.ready != ready.Status {
		n.mu.ready, n.mu.changed = ready.Status, metav1.Now()
	}
	ready.LastTransitionTime = n.mu.changed
	n.mu.Unlock()
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node, CreationTimestamp: n.since, Labels: map[string]string{v1.LabelHostname: f.node}}}
	maps.Copy(object.Labels, f.offer.labels)
	object.Spec.Taints = f.offer.taints
	object.Status = v1.NodeStatus{
		Capacity: f.offer.capacity, Allocatable: f.offer.allocatable, Addresses: nodeAddresses(f.node, f.hostIPs(ctx)),
		Conditions: []v1.NodeCondition{ready}, NodeInfo: n.machine.System(), Images: n.parts.agent.Images(),
	}
	info := &object.Status.NodeInfo
	info.KubeletVersion = f.version
	object.Labels[v1.LabelOSStable], object.Labels[v1.LabelArchStable] = info.OperatingSystem, info.Architecture
	n.describe(object)
	return object
}

// defaultSocket returns the socket of an agent with this root folder.
func defaultSocket(root string) string {
	switch runtimeDir := os.Getenv("XDG_RUNTIME_DIR"); {
	case root != defaultRoot():
		return filepath.Join(root, "node.sock")
	case os.Geteuid() == 0:
		return "/run/keelson/node.sock"
	case filepath.IsAbs(runtimeDir):
		return filepath.Join(runtimeDir, "keelson", "node.sock")
	}
	return filepath.Join(root, "node.sock")
}
