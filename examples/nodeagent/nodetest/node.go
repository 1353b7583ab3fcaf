// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// nodeName is the name of every Node.
const nodeName = "node"

// Options configure a Node.
type Options struct {
	// World is what the containers do. Defaults to a new one, in which every
	// container runs until it is stopped.
	World *fake.World
	// Source is where the pods come from, one of podconfig's names. Pods of an API
	// server can do what static pods cannot: they are resized in place, say.
	// Defaults to podconfig.SourceFile.
	Source string
	// API, if set, is the API server that the node belongs to, which others may
	// share: its pods that are bound to the node run beside those of Apply, and
	// their statuses go there. See Bind.
	API *statustest.Server
	// Agent, if set, may change the agent's options before each start of it.
	Agent func(*nodeagent.Options)
}

// Node is a node with an agent on it. Its methods are for the test's goroutine.
type Node struct {
	World *fake.World
	Agent *nodeagent.Agent // the present one; RestartAgent replaces it

	api    *api
	t      testing.TB
	opts   Options
	root   string
	cancel context.CancelFunc
	done   chan error

	mu      sync.Mutex
	desired []*v1.Pod
	changed chan struct{}

	seenMu sync.Mutex
	seen   map[types.UID]v1.PodStatus
}

// New starts a node with no pods. Call it inside a synctest bubble, with the
// bubble's t; when the test ends the agent is stopped and leaves its pods.
func New(t testing.TB, opts Options) *Node {
	t.Helper()
	n := &Node{t: t, opts: opts, World: opts.World, root: t.TempDir(), changed: make(chan struct{}, 1), seen: map[types.UID]v1.PodStatus{}}
	if n.opts.Source == "" {
		n.opts.Source = podconfig.SourceFile
	}
	if n.World == nil {
		var err error
		if n.World, err = fake.NewWorld(fake.WorldOptions{}); err != nil {
			t.Fatalf("nodetest: %v", err)
		}
	}
	if opts.API != nil {
		n.api = newAPI(opts.API, nodeName)
	}
	n.start()
	t.Cleanup(func() {
		n.stop()
		n.World.Close()
	})
	return n
}

func (n *Node) start() {
	n.t.Helper()
	rt, err := fake.New(fake.Options{World: n.World})
	if err != nil {
		n.t.Fatalf("nodetest: %v", err)
	}
	opts := nodeagent.Options{
		NodeName:   nodeName,
		Root:       n.root,
		Runtime:    rt,
		Sources:    []podconfig.Source{podconfig.SourceFunc(n.opts.Source, n.source)},
		OnShutdown: nodeagent.KeepPods,
		Status:     n.told,
		Logger:     zap.NewNop(),

		ProbeHandler: probe(rt),
		Mounter:      mount.None{},
	}
	if n.api != nil {
		opts.Sources = append(opts.Sources, podconfig.SourceFunc(podconfig.SourceAPI, n.api.run))
		opts.Cluster.Patcher = n.api
	}
	if n.opts.Agent != nil {
		n.opts.Agent(&opts)
	}
	if n.Agent, err = nodeagent.New(opts); err != nil {
		n.t.Fatalf("nodetest: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan error, 1)
	agent, done := n.Agent, n.done
	go func() { done <- agent.Run(ctx) }()
	n.Settle()
}

func (n *Node) stop() {
	n.t.Helper()
	n.cancel()
	if err := <-n.done; err != nil {
		n.t.Errorf("nodetest: the agent ended with: %v", err)
	}
}

// source hands over what Apply was told.
func (n *Node) source(ctx context.Context, out podconfig.Sink) error {
	for {
		n.mu.Lock()
		pods := n.desired
		n.mu.Unlock()
		if err := out.Submit(ctx, podconfig.Snapshot(pods...)); err != nil {
			return err
		}
		select {
		case <-n.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Apply says which pods should run from now on; others are removed. The pods
// are not written, and the caller keeps them.
func (n *Node) Apply(pods ...*v1.Pod) {
	n.t.Helper()
	n.mu.Lock()
	n.desired = pods
	n.mu.Unlock()
	select {
	case n.changed <- struct{}{}:
	default:
	}
	n.Settle()
}

// Root is the agent's folder.
func (n *Node) Root() string { return n.root }

// Settle waits until everything that is due at this instant has happened. Use
// time.Sleep to let virtual time go by.
func (n *Node) Settle() { synctest.Wait() }

// RestartAgent ends the agent as it stands, calls under way included, and starts
// another on the same node. The pods run on meanwhile.
func (n *Node) RestartAgent() {
	n.t.Helper()
	n.stop()
	n.start()
}

// Shutdown ends the agent and waits until it has done what Options.OnShutdown
// says. RestartAgent may follow.
func (n *Node) Shutdown() {
	n.t.Helper()
	n.stop()
	n.cancel, n.done = func() {}, make(chan error, 1)
	n.done <- nil
}

// Status returns the live status of the named pod; the test fails if the agent
// knows no such pod.
func (n *Node) Status(name string) v1.PodStatus {
	n.t.Helper()
	for _, pod := range n.Agent.Pods() {
		if pod.Name == name {
			return pod.Status
		}
	}
	n.t.Fatalf("nodetest: the agent knows no pod %q", name)
	return v1.PodStatus{}
}

// Last returns the last status that the agent published for a pod, also if the
// pod is gone since.
func (n *Node) Last(uid types.UID) v1.PodStatus {
	n.seenMu.Lock()
	defer n.seenMu.Unlock()
	return n.seen[uid]
}

func (n *Node) told(pod *v1.Pod, status v1.PodStatus) {
	n.seenMu.Lock()
	defer n.seenMu.Unlock()
	n.seen[pod.UID] = status
}
