// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/simulation/cluster"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statuspatch"
)

// Options configure a Fleet.
type Options struct {
	// Config is the API server, with permissions to write nodes, leases and statuses of pods. New
	// copies it. Required.
	Config *rest.Config
	// Root is the absolute path of a folder for the files of the agents. Required.
	Root string
	// Nodes is the number of nodes in all shards: 1 to 16384. Required, unless Objects is set.
	Nodes int
	// Objects are the nodes in all shards, with names, labels, taints and allocatable resources of their
	// own, in place of Nodes, Name and Taints. New copies the objects, and adds addresses and a network of
	// pods. Defaults to nodes of those options, with 32 cores, 256 GiB of memory and 110 pods.
	Objects []*v1.Node
	// Name is the first part of the names of nodes, which are Name-0, Name-1 and so on. Defaults to
	// sim.
	Name string
	// Shard and Shards divide the nodes among several processes: this process runs the nodes whose
	// number modulo Shards is Shard. Default to all nodes.
	Shard, Shards int
	// Schedule binds pods of the default scheduler to the nodes, for an API server without a scheduler,
	// such as the API server of envtest. Pods are placed by the rules of package sim/kube without
	// preemption, with the labels and taints of these options. All nodes must be in one process. Start
	// sets Schedule if no kube-scheduler has a lease.
	Schedule bool
	// Taints are set on each new node.
	Taints []v1.Taint
	// Cluster may change the options of the nodes in memory, such as their scripts and the sizes of images,
	// before they are used. Defaults to no change.
	Cluster func(o *cluster.Options)
	// Changed is called with the newest object of each pod of the nodes, and with nil once the pod is
	// deleted. The call must not block or write to the pod. Defaults to none.
	Changed func(uid types.UID, pod *v1.Pod)
	// Logger receives failures of requests. Defaults to none.
	Logger *zap.Logger
}

// Fleet is a set of nodes on an API server.
type Fleet struct {
	opts    Options
	core    corev1.CoreV1Interface
	leases  coordination.LeaseInterface
	nodes   []*v1.Node
	cluster *cluster.Cluster
	watch   *podwatch.Source
	feeds   *feeds
	beats   *heartbeats
	binder  *scheduler // nil: the API server has a scheduler
}

// mostNodes is the number of networks of pods, with 254 addresses each, in 100.64.0.0/10.
const mostNodes = 1 << 14

// New returns a Fleet whose nodes start in Run. The error names the invalid field.
func New(o Options) (*Fleet, error) {
	o.Shards = max(o.Shards, 1)
	switch {
	case o.Config == nil:
		return nil, errors.New("fleet: Options.Config is required")
	case o.Objects != nil && (o.Nodes != 0 || o.Name != "" || o.Taints != nil):
		return nil, errors.New("fleet: Options.Objects is set, beside Nodes, Name or Taints")
	case o.Objects != nil:
		o.Nodes = len(o.Objects)
	}
	o.Name = cmp.Or(o.Name, "sim")
	switch {
	case o.Nodes < 1 || o.Nodes > mostNodes:
		return nil, fmt.Errorf("fleet: Options.Nodes is %d: want 1 to %d", o.Nodes, mostNodes)
	case o.Schedule && o.Shards > 1:
		return nil, fmt.Errorf("fleet: Options.Schedule needs all nodes in one process, and Options.Shards is %d", o.Shards)
	case !filepath.IsAbs(o.Root):
		return nil, fmt.Errorf("fleet: Options.Root %q: want an absolute path", o.Root)
	case o.Shard < 0 || o.Shard >= o.Shards || o.Shard >= o.Nodes:
		return nil, fmt.Errorf("fleet: Options.Shard is %d, of %d shards of %d nodes: a shard without nodes", o.Shard, o.Shards, o.Nodes)
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	f := &Fleet{opts: o}
	for i := o.Shard; i < o.Nodes; i += o.Shards {
		f.nodes = append(f.nodes, f.node(i))
	}
	if err := f.connect(); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return f, nil
}

// connect makes the clients of the API server.
func (f *Fleet) connect() error {
	config := rest.CopyConfig(f.opts.Config)
	config.QPS = -1 // the server's priority and fairness is the limit
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.WarningHandler = rest.NoWarnings{}
	config.UserAgent = "keelson-fleet"
	spare(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	core, err := corev1.NewForConfigAndClient(config, client)
	if err != nil {
		return err
	}
	coordinator, err := coordination.NewForConfigAndClient(config, client)
	if err != nil {
		return err
	}
	patcher, err := statuspatch.New(statuspatch.Options{Config: config})
	if err != nil {
		return err
	}
	f.core, f.leases = core, coordinator.Leases(v1.NamespaceNodeLease)
	f.feeds = newFeeds(core.Pods(""), f.nodes)
	f.beats, err = newHeartbeats(core.Nodes(), f.leases, f.nodes, f.opts.Logger)
	if err != nil {
		return err
	}
	options := cluster.Options{
		Nodes: f.nodes, Root: f.opts.Root, Behave: behave,
		Connect: func(node string) (podconfig.Source, statusmanager.Patcher) {
			return f.feeds.connect(node), slimPatcher{patcher}
		},
		Agent: func(o *node.Options) {
			o.Admit, o.Cluster.Coalesce = admit, coalesce
			o.Without = []string{"declared", "images", "volumes", "restart-memory", "mirrors"}
		},
	}
	if f.opts.Cluster != nil {
		f.opts.Cluster(&options)
	}
	if f.cluster, err = cluster.New(options); err != nil {
		return err
	}
	f.watch, err = podwatch.New(podwatch.Config{
		Pods: core.Pods(""), Logger: f.opts.Logger,
		Nodes: func(name types.NodeName) bool {
			return f.cluster.Node(string(name)) != nil || name == "" && f.opts.Schedule
		},
	})
	if f.opts.Changed != nil {
		f.feeds.changed = append(f.feeds.changed, f.opts.Changed)
	}
	if err != nil || !f.opts.Schedule {
		return err
	}
	f.binder, err = newScheduler(core, f.nodes, f.opts.Logger)
	if err == nil {
		f.feeds.changed = append(f.feeds.changed, f.binder.changed)
	}
	return err
}

// pendingWait is the time that the Pending status of a starting pod waits for a newer status. Most pods
// run before, and need a single patch.
const pendingWait = 200 * time.Millisecond

func coalesce(c statusmanager.Change) time.Duration {
	if c.New.Phase == v1.PodPending {
		return pendingWait
	}
	return 0
}

// node returns the object of a node. The addresses of nodes and pods are different for each number.
func (f *Fleet) node(i int) *v1.Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", f.opts.Name, i)},
		Spec:       v1.NodeSpec{Taints: f.opts.Taints},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("110"),
		}},
	}
	if f.opts.Objects != nil {
		n = f.opts.Objects[i].DeepCopy()
	}
	if n.Status.Capacity == nil {
		n.Status.Capacity = n.Status.Allocatable
	}
	n.Spec.PodCIDR = fmt.Sprintf("100.%d.%d.0/24", 64+i>>8, i&0xff)
	n.Status.Addresses = []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: fmt.Sprintf("198.18.%d.%d", i>>8, i&0xff)},
		{Type: v1.NodeHostName, Address: n.Name},
	}
	n.Status.NodeInfo = v1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "keelson-fleet"}
	return n
}

// Run runs the nodes until ctx ends, and returns when all their goroutines have ended. The objects of
// nodes and pods stay on the API server: see Delete.
func (f *Fleet) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var agents, watch error
	var wg sync.WaitGroup
	wg.Go(func() { f.beats.run(ctx) })
	if f.binder != nil {
		wg.Go(func() { f.binder.run(ctx) })
	}
	wg.Go(func() {
		defer cancel()
		agents = f.cluster.Run(ctx)
	})
	wg.Go(func() {
		defer cancel()
		watch = f.watch.Run(ctx, f.feeds)
	})
	wg.Wait()
	return errors.Join(agents, watch)
}

// Registered returns a channel that is closed when all nodes of this process are registered.
func (f *Fleet) Registered() <-chan struct{} { return f.beats.registered }

// Cluster returns the nodes of this process, for faults such as fake.World.Kill.
func (f *Fleet) Cluster() *cluster.Cluster { return f.cluster }

// Delete deletes the objects of the nodes of this process and their leases. Call it after Run. Pods
// stay, and a control plane collects them.
func (f *Fleet) Delete(ctx context.Context) error {
	var errs []error
	for _, n := range f.nodes {
		errs = append(errs, f.core.Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{}), f.leases.Delete(ctx, n.Name, metav1.DeleteOptions{}))
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil || apierrors.IsNotFound(err) })...)
}

// slimPatcher is a Patcher that returns pods without the fields that no agent reads.
type slimPatcher struct{ *statuspatch.Patcher }

// PatchStatus implements statusmanager.Patcher.
func (p slimPatcher) PatchStatus(ctx context.Context, ref statusmanager.PodRef, patch []byte) (*v1.Pod, error) {
	pod, err := p.Patcher.PatchStatus(ctx, ref, patch)
	if pod != nil {
		slim(pod)
	}
	return pod, err
}

// GetPod implements statusmanager.Getter.
func (p slimPatcher) GetPod(ctx context.Context, ref statusmanager.PodRef) (*v1.Pod, error) {
	pod, err := p.Patcher.GetPod(ctx, ref)
	if pod != nil {
		slim(pod)
	}
	return pod, err
}
