// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// unlimited is a limit of concurrent starts and pulls that no pod reaches: the durations of starts and
// pulls are those of the options.
const unlimited = 1 << 20

// Node is a node of a Cluster.
type Node struct {
	// Name is the name of the node.
	Name string
	// World has the containers, and their faults.
	World *fake.World
	// Client is the connection to Options.Server, and its faults; nil with Options.Connect.
	Client *statustest.Client

	cluster *Cluster
	object  *v1.Node
	store   *imageStore

	mu struct {
		sync.Mutex
		off      bool
		machine  *machine           // of the present agent; nil: none
		stop     context.CancelFunc // of the present agent
		switched signal.Signal
	}
}

func newNode(c *Cluster, object *v1.Node) (*Node, error) {
	n := &Node{Name: object.Name, cluster: c, object: object, store: newImageStore(object.Status.Images)}
	n.mu.switched = signal.New()
	latency := c.opts.Latency
	options := fake.WorldOptions{JournalLimit: -1, Behave: c.opts.Behave}
	if latency != nil {
		options.Latency = func(call fake.Call) time.Duration { return latency(n.Name, call) }
	}
	var err error
	if object.Spec.PodCIDR != "" {
		if options.PodCIDR, err = netip.ParsePrefix(object.Spec.PodCIDR); err != nil {
			return nil, fmt.Errorf("Spec.PodCIDR: %w", err)
		}
	}
	if n.World, err = fake.NewWorld(options); err != nil {
		return nil, err
	}
	if c.opts.Connect == nil {
		n.Client = c.opts.Server.NewClient(c.opts.Lag)
	}
	return n, nil
}

// Lose switches the node off: its containers end, and its agent has no effect any more. On the API
// server the pods stay as they are.
func (n *Node) Lose() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.off {
		return
	}
	n.mu.off = true
	if n.Client != nil {
		n.Client.Cut(nil)
	}
	if n.mu.machine != nil {
		n.mu.machine.off.Store(true)
		n.mu.stop()
	}
	n.World.Reboot()
}

// Return switches the node on. Its agent starts with the pods that are bound to the node then. The
// images are still on the node.
func (n *Node) Return() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.off = false
	n.mu.switched.Notify()
}

// run runs an agent whenever the node is on, until ctx ends.
func (n *Node) run(ctx context.Context, lock *node.RootLock) error {
	for ctx.Err() == nil {
		if !n.isOn() {
			select {
			case <-ctx.Done():
			case <-n.mu.switched:
			}
			continue
		}
		life, stop := context.WithCancel(ctx)
		agent, err := n.boot(lock, stop)
		if err == nil {
			err = agent.Run(life)
		}
		stop()
		if err != nil && ctx.Err() == nil && n.isOn() {
			return fmt.Errorf("cluster: node %s: %w", n.Name, err)
		}
	}
	return nil
}

func (n *Node) isOn() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.mu.off
}

// boot makes an agent.
func (n *Node) boot(lock *node.RootLock, stop context.CancelFunc) (*node.Agent, error) {
	m, err := newMachine(n)
	if err != nil {
		return nil, err
	}
	random := n.cluster.random
	source, patcher, err := n.connect(random)
	if err != nil {
		return nil, err
	}
	o := node.Options{
		NodeName: n.Name, Root: filepath.Join(n.cluster.opts.Root, n.Name), RootLock: lock,
		Runtime: m, ProbeHandler: m.prober(), Sources: []podconfig.Source{source},
		Cluster: node.Cluster{Patcher: patcher}, HostIPs: n.addresses(),
		Allocatable: n.object.Status.Allocatable, NodeLabels: n.object.Labels, NodeTaints: n.object.Spec.Taints,
		Mounter: mount.None{}, OnShutdown: node.KeepPods, Random: random, Events: noEvents{},
		Generator:           func(g *runtime.DefaultGenerator) runtime.Generator { return logless{g, g, g} },
		MaxConcurrentStarts: unlimited, MaxConcurrentPulls: unlimited,
	}
	if change := n.cluster.opts.Agent; change != nil {
		change(&o)
	}
	agent, err := node.New(o)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.machine, n.mu.stop = m, stop
	if n.mu.off { // switched off in the meantime
		stop()
		return agent, nil
	}
	if n.Client != nil {
		n.Client.Mend()
	}
	return agent, nil
}

// connect returns the source of pods and the writer of statuses of an agent.
func (n *Node) connect(random func() float64) (podconfig.Source, statusmanager.Patcher, error) {
	if connect := n.cluster.opts.Connect; connect != nil {
		source, patcher := connect(n.Name)
		return source, patcher, nil
	}
	if n.cluster.opts.Plain {
		return plain{n.Client, n.Name}, n.Client, nil
	}
	source, err := podwatch.New(podwatch.Config{Pods: n.Client, NodeName: types.NodeName(n.Name), Random: random})
	return source, n.Client, err
}

// addresses returns the internal addresses of the node.
func (n *Node) addresses() (all []string) {
	for _, a := range n.object.Status.Addresses {
		if a.Type == v1.NodeInternalIP {
			all = append(all, a.Address)
		}
	}
	return all
}

// noEvents drops the events about pods.
type noEvents struct{}

// Event implements runtime.EventRecorder.
func (noEvents) Event(apiruntime.Object, string, string, string) {}

// logless is a generator for containers that write no logs, so that no logs are looked for.
type logless struct {
	runtime.Generator
	runtime.Checker
	runtime.AddressUser
}
