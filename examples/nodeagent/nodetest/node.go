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

// firstName is the name of a Node that is given none and shares no API server.
const firstName = "node"

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
	// NodeName is the node's name. It is an error if another node of API has it.
	// Defaults to "node" or, if another node of API has that, "node-2" and so on.
	NodeName string
	// StopTimeout is how long an agent may take to stop. Defaults to a day.
	StopTimeout time.Duration
	// Mirrors has static pods have mirror pods on API. Defaults to none.
	Mirrors bool
	// VolumeLatency is how long it takes to set up or tear down a volume of
	// VolumeDriver. Defaults to no time at all.
	VolumeLatency time.Duration
	// Seed chooses what agents leave to chance, such as the jitter of back-offs.
	// Defaults to 0, a seed like any other.
	Seed uint64
	// Agent, if set, may change the agent's options before each start of it.
	Agent func(*node.Options)
	// Assemble makes the agent. Defaults to ReferenceAgent.
	Assemble Assemble
}

// Node is a node with an agent on it. Its methods are for the test's goroutine.
type Node struct {
	World *fake.World
	Agent *node.Agent // the present one, or the last; StartAgent replaces it; nil if Options.Assemble makes another

	assembly Assembly // the same, whatever it is

	name   string // as its agent has it
	api    *api
	static *supply // what Apply was told
	disk   *disk
	depot  *depot // nil: every image is here
	opts   Options
	root   string
	fatalf func(format string, args ...any) // does not return
	errorf func(format string, args ...any)

	life    *life          // of the present agent; nil: there is none
	crashed sync.WaitGroup // of agents that have crashed, until their goroutines have ended
	history *recorder
}

// life is one agent's.
type life struct {
	lock   *node.RootLock
	lease  *lease
	cancel context.CancelFunc
	done   chan error
}

// New starts a node with no pods. Call it inside a synctest bubble, with the
// bubble's t; when the test ends the agent is stopped and leaves its pods.
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
	if n.opts.StopTimeout == 0 {
		n.opts.StopTimeout = 24 * time.Hour
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
	n.disk = newDisk(n.World, opts.VolumeLatency)
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

// close ends everything but the containers.
func (n *Node) close() {
	n.StopAgent()
	n.crashed.Wait()
	n.World.Close()
}

// StartAgent starts an agent, if there is none.
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
	// A crash releases the lock, as the kernel does, while goroutines of the crashed agent live on.
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
		opts.Cluster.Patcher = &heldPatcher{n.api, l}
		if n.opts.Mirrors {
			n.api.withMirrors(&opts.Cluster, l)
		}
	}
	return opts, nil
}

// random is node.Options.Random: the same for everybody who asks at one instant,
// since in what order they do is not the same in each run.
func (n *Node) random() float64 {
	return rand.New(rand.NewPCG(n.opts.Seed, uint64(time.Now().UnixNano()))).Float64()
}

// StopAgent ends the agent, if there is one, and waits until it has done what
// Options.OnShutdown says. One that does not end within Options.StopTimeout
// crashes, as by the kill of a service manager.
func (n *Node) StopAgent() {
	l := n.life
	if l == nil {
		return
	}
	l.lease.resume()
	l.lease.set(nil)
	l.cancel()
	timer := time.NewTimer(n.opts.StopTimeout)
	defer timer.Stop()
	select {
	case err := <-l.done:
		n.life = nil
		l.lock.Unlock()
		kind := MarkAgentStopped
		switch {
		case l.lease.isDead(): // by a trap, before it could stop
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

// RestartAgent ends the agent as it stands, calls under way included, and starts
// another on the same node. The pods run on meanwhile.
func (n *Node) RestartAgent() {
	n.StopAgent()
	n.StartAgent()
}

// Shutdown is StopAgent. RestartAgent or StartAgent may follow.
func (n *Node) Shutdown() { n.StopAgent() }

// Apply says which pods should run from now on; others are removed. The pods
// are not written, and the caller keeps them.
func (n *Node) Apply(pods ...*v1.Pod) {
	n.static.set(pods)
	n.Settle()
}

// Name is the node's name, to which its pods are bound.
func (n *Node) Name() string { return n.name }

// Root is the agent's folder.
func (n *Node) Root() string { return n.root }

// Settle waits until everything that is due at this instant has happened. Use
// time.Sleep to let virtual time go by.
func (n *Node) Settle() { synctest.Wait() }

// Status returns the live status of the named pod; the test fails if the agent
// knows no such pod.
func (n *Node) Status(name string) v1.PodStatus {
	for _, pod := range n.assembly.Pods() {
		if pod.Name == name {
			return pod.Status
		}
	}
	n.fatalf("the agent knows no pod %q", name)
	return v1.PodStatus{}
}

// Last returns the last status that the agent published for a pod, also if the
// pod is gone since.
func (n *Node) Last(uid types.UID) v1.PodStatus { return n.history.last(uid) }
