// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// firstName is the default name of a Node without a shared API server.
const firstName = "node"

// Options configures a Node.
type Options struct {
	// World runs the containers. Defaults to a new World, in which every container runs until it is
	// stopped.
	World *fake.World
	// Source is the name of the pods' source, one of podconfig's names. Pods of an API server have
	// more abilities than static pods, for example resizes in place. Defaults to
	// podconfig.SourceFile.
	Source string
	// API is the API server of the node, or nil. Nodes may share it. Its pods that are bound to the
	// node run beside the pods of Apply, and their statuses are written to it. See Bind.
	API *statustest.Server
	// NodeName is the node's name. The name of another node of API is an error. Defaults to "node"
	// or, if another node of API has this name, "node-2" and so on.
	NodeName string
	// stopTimeout is the longest duration of an agent's stop. Defaults to a day.
	stopTimeout time.Duration
	// Mirrors creates mirror pods of static pods on API. Defaults to false.
	Mirrors bool
	// volumeLatency is the duration of a setup or teardown of a volume of VolumeDriver. Defaults to
	// 0.
	volumeLatency time.Duration

	// sets: the agent has the pods of the API server in its own process (statusmanager.Setter).
	sets bool
	// Seed determines the random values of agents, such as the jitter of back-offs. Defaults to 0,
	// a valid seed.
	Seed uint64
	// Agent may change the agent's options before each start. Defaults to no change.
	Agent func(*node.Options)
	// Assemble makes the agent. Defaults to ReferenceAgent.
	Assemble Assemble
}

// Node is a node with an agent on it. Its methods are for the test's goroutine.
type Node struct {
	World *fake.World
	Agent *node.Agent // the present or last agent; replaced by StartAgent; nil if Options.Assemble makes another Assembly

	assembly Assembly // the present or last agent

	name   string // name used by the agent
	api    *api
	static *supply // the pods of Apply
	disk   *disk
	depot  *depot // nil: every image is present
	opts   Options
	root   string
	fatalf func(format string, args ...any) // does not return
	errorf func(format string, args ...any)

	life    *life          // of the present agent; nil: no agent
	crashed sync.WaitGroup // counts crashed agents whose goroutines have not ended
	history *recorder
}

// life is the life of an agent.
type life struct {
	lock   *node.RootLock
	lease  *lease
	cancel context.CancelFunc
	done   chan error
}

// New starts a node without pods. Call New inside a synctest bubble, with the bubble's t. At the
// end of the test the agent is stopped, and its pods are left.
func New(t testing.TB, opts Options) *Node {
	t.Helper()
	fatalf := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("nodetest: "+format, args...)
	}
	n, err := newNode(opts, t.TempDir())
	if err != nil {
		fatalf("%v", err)
	}
	n.fatalf = fatalf
	n.errorf = func(format string, args ...any) {
		t.Helper()
		t.Errorf("nodetest: "+format, args...)
	}
	n.StartAgent()
	t.Cleanup(n.close)
	return n
}

// newNode makes a node without an agent.
func newNode(opts Options, root string) (*Node, error) {
	n := &Node{opts: opts, World: opts.World, root: root}
	if n.opts.Source == "" {
		n.opts.Source = podconfig.SourceFile
	}
	if n.opts.stopTimeout == 0 {
		n.opts.stopTimeout = 24 * time.Hour
	}
	if n.opts.Assemble == nil {
		n.opts.Assemble = ReferenceAgent
	}
	if n.World == nil {
		var err error
		if n.World, err = fake.NewWorld(fake.WorldOptions{}); err != nil {
			return nil, err
		}
	}
	n.history = newRecorder(n.World)
	n.disk = newDisk(n.World, opts.volumeLatency)
	n.static = newSupply(n.opts.Source, n.history)
	if opts.API == nil {
		n.name = cmp.Or(opts.NodeName, firstName)
		return n, nil
	}
	var err error
	if n.name, err = joinAs(opts.API, opts.NodeName); err != nil {
		return nil, err
	}
	n.api = newAPI(opts.API, n.name, n.history)
	return n, nil
}

// close stops all but the containers.
func (n *Node) close() {
	n.StopAgent()
	n.crashed.Wait()
	n.World.Close()
}

// StartAgent starts an agent, unless an agent runs.
func (n *Node) StartAgent() {
	if err := n.startAgent(); err != nil {
		n.fatalf("%v", err)
	}
}

func (n *Node) startAgent() error {
	if n.life != nil {
		return nil
	}
	l := &life{lease: newLease(), done: make(chan error, 1)}
	opts, err := n.agentOptions(l.lease)
	if err != nil {
		return err
	}
	// As in the kernel, a crash releases the lock, while goroutines of the crashed agent live on.
	if l.lock, err = node.LockRoot(context.Background(), n.root, nil); err != nil {
		return err
	}
	opts.RootLock = l.lock
	if n.opts.Agent != nil {
		n.opts.Agent(&opts)
	}
	if err := n.rename(opts.NodeName); err != nil {
		return err
	}
	agent, err := n.opts.Assemble(opts)
	if err != nil {
		l.lock.Unlock()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	n.life, n.assembly = l, agent
	n.Agent, _ = agent.(*node.Agent)
	n.history.mark(MarkAgentStarted)
	go func() { l.done <- agent.Run(ctx) }()
	n.Settle()
	return nil
}

func (n *Node) agentOptions(l *lease) (node.Options, error) {
	bare, err := fake.New(fake.Options{World: n.World})
	if err != nil {
		return node.Options{}, err
	}
	rt := &Runtime{bare, l, n.history}
	opts := node.Options{
		NodeName:   n.name,
		Root:       n.root,
		Runtime:    rt,
		Sources:    []podconfig.Source{n.static.source(l)},
		OnShutdown: node.KeepPods,
		Status:     n.history.published(l),
		Events:     heldEvents{n.history, l},
		Random:     n.random,
		Logger:     zap.NewNop(),

		VolumePlugins: []volumemanager.Plugin{&volumePlugin{n.disk, l}},
		ProbeHandler:  probe(rt, n.history),
		Mounter:       mount.None{},
	}
	if n.api != nil {
		opts.Sources = append(opts.Sources, n.api.supply.source(l))
		patcher := &heldPatcher{n.api, l}
		if opts.Cluster.Patcher = patcher; n.opts.sets {
			opts.Cluster.Patcher = &heldSetter{patcher, n.opts.API.NewClient(0)}
		}
		if n.opts.Mirrors {
			n.api.withMirrors(&opts.Cluster, l)
		}
	}
	return opts, nil
}

// random is node.Options.Random. All calls at the same instant return the same value, because the
// order of the calls differs between runs.
func (n *Node) random() float64 {
	return rand.New(rand.NewPCG(n.opts.Seed, uint64(time.Now().UnixNano()))).Float64()
}

// StopAgent stops a running agent, and waits until it has acted according to Options.OnShutdown. An
// agent that does not end within stopTimeout crashes, as after a kill by a service manager.
func (n *Node) StopAgent() {
	l := n.life
	if l == nil {
		return
	}
	l.lease.resume()
	l.lease.set(nil)
	l.cancel()
	timer := time.NewTimer(n.opts.stopTimeout)
	defer timer.Stop()
	select {
	case err := <-l.done:
		n.life = nil
		l.lock.Unlock()
		kind := MarkAgentStopped
		switch {
		case l.lease.isDead(): // by a trap, before the stop
			l.lease.revoke(nil)
			kind = MarkAgentCrashed
		case err != nil:
			n.errorf("the agent ended with: %v", err)
		}
		l.lease.calls.Wait()
		n.history.mark(kind)
	case <-timer.C:
		n.abandon(l, nil)
	}
}

// RestartAgent stops the agent, including calls in progress, and starts another agent on the same
// node. The pods run on.
func (n *Node) RestartAgent() {
	n.StopAgent()
	n.StartAgent()
}

// Shutdown is StopAgent. RestartAgent or StartAgent may follow.
func (n *Node) Shutdown() { n.StopAgent() }

// Apply sets the pods that should run. Pods missing from the list are removed. Apply does not
// modify the pods. The caller keeps them.
func (n *Node) Apply(pods ...*v1.Pod) {
	n.static.set(pods)
	n.Settle()
}

// Name returns the node's name, to which its pods are bound.
func (n *Node) Name() string { return n.name }

// Root returns the agent's folder.
func (n *Node) Root() string { return n.root }

// Settle waits until all work of this instant is done. Use time.Sleep to advance virtual time.
func (n *Node) Settle() { synctest.Wait() }

// Status returns the live status of the named pod. The test fails if the agent does not know the
// pod.
func (n *Node) Status(name string) v1.PodStatus {
	for _, pod := range n.assembly.Pods() {
		if pod.Name == name {
			return pod.Status
		}
	}
	n.fatalf("the agent knows no pod %q", name)
	return v1.PodStatus{}
}

// Last returns the last published status of a pod, also after the end of the pod.
func (n *Node) Last(uid types.UID) v1.PodStatus { return n.history.last(uid) }
