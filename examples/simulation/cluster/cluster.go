// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// Options configure a Cluster.
type Options struct {
	// Nodes have names, labels, taints, allocatable resources, addresses, present images, and a PodCIDR
	// for the addresses of pods. Required.
	Nodes []*v1.Node
	// Root is the absolute path of a folder for the files of the agents. Required.
	Root string
	// Server is the API server. Defaults to a new Server without a journal.
	Server *statustest.Server
	// Connect returns the source of pods and the writer of statuses of a node's agent, for nodes on
	// another API server than Server. It is called before each start of the agent. Defaults to Server.
	Connect func(node string) (podconfig.Source, statusmanager.Patcher)
	// Lag is the time from a change on the API server to its arrival at a node. Defaults to 0.
	Lag time.Duration
	// Plain saves processor time and memory: the agents follow Server without the reflector of client-go,
	// whose watches end at times. Defaults to the reflector.
	Plain bool
	// ImageSizes are the sizes of images in bytes, by normalized name. Other images have no size.
	ImageSizes map[string]int64
	// Bandwidth is the speed of each pull in bytes per second. Defaults to pulls that take no time.
	Bandwidth int64
	// Latency returns the time before a call to a node's runtime takes effect. It is called by many
	// goroutines. Defaults to 0.
	Latency func(node string, call fake.Call) time.Duration
	// Behave returns the script of a container. It is called by many goroutines. Defaults to
	// containers that run until they are stopped.
	Behave func(pod *v1.Pod, spec runtime.ContainerSpec) fake.Script
	// Seed determines the random values of agents, such as the jitter of back-offs. Defaults to 0, a
	// valid seed.
	Seed uint64
	// Agent may change the options of an agent before each start. Defaults to no change.
	Agent func(o *node.Options)
}

// Cluster is a set of nodes on an API server. Its methods are safe for concurrent use.
type Cluster struct {
	opts   Options
	nodes  []*Node
	byName map[string]*Node
}

// New returns a Cluster whose agents start in Run. The error names the invalid field.
func New(o Options) (*Cluster, error) {
	switch {
	case len(o.Nodes) == 0:
		return nil, errors.New("cluster: Options.Nodes: none")
	case !filepath.IsAbs(o.Root):
		return nil, fmt.Errorf("cluster: Options.Root %q: want an absolute path", o.Root)
	case o.Lag < 0 || o.Bandwidth < 0:
		return nil, errors.New("cluster: Options.Lag and Options.Bandwidth: negative")
	}
	if o.Connect != nil && (o.Server != nil || o.Lag != 0 || o.Plain) {
		return nil, errors.New("cluster: Options.Server, Options.Lag and Options.Plain have no effect with Options.Connect")
	}
	if o.Server == nil && o.Connect == nil {
		var err error
		if o.Server, err = statustest.New(statustest.Options{JournalLimit: -1, History: watchHistory}); err != nil {
			return nil, err
		}
	}
	c := &Cluster{opts: o, byName: make(map[string]*Node, len(o.Nodes))}
	for i, object := range o.Nodes {
		if object == nil || c.byName[object.Name] != nil {
			return nil, fmt.Errorf("cluster: Options.Nodes[%d]: nil, or the name of an earlier node", i)
		}
		n, err := newNode(c, object)
		if err != nil {
			return nil, fmt.Errorf("cluster: Options.Nodes[%d]: %w", i, err)
		}
		c.nodes, c.byName[n.Name] = append(c.nodes, n), n
	}
	return c, nil
}

// watchHistory is how many changes of each node the default Server keeps. A watch ends at times, and the next
// begins where it ended; changes come rarely in between.
const watchHistory = 4

// Server returns the API server, or nil with Options.Connect.
func (c *Cluster) Server() *statustest.Server { return c.opts.Server }

// Nodes returns the nodes in the order of Options.Nodes. The caller does not write to the slice.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Node returns a node by its name, or nil.
func (c *Cluster) Node(name string) *Node { return c.byName[name] }

// Run runs the agents of all nodes until ctx ends, and returns when all their goroutines have ended.
// Containers run on. An agent that fails ends Run with the error of the agent.
func (c *Cluster) Run(ctx context.Context) error {
	lock, err := node.LockRoot(ctx, c.opts.Root, nil)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer lock.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			if errs[i] = n.run(ctx, lock); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// random is node.Options.Random of all agents. Calls at the same instant return the same value,
// because the order of calls within an instant differs between runs.
func (c *Cluster) random() float64 {
	return rand.New(rand.NewPCG(c.opts.Seed, uint64(time.Now().UnixNano()))).Float64()
}
