// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
	"github.com/keelson-dev/keelson/internal/retry"
)

const (
	// renewInterval is the time between two renewals of a lease, as with the kubelet.
	renewInterval = 10 * time.Second
	// reportEvery is the number of renewals for each report of the node's status. A report finds a node that a
	// controller has marked as dead.
	reportEvery = 6
	// registerAgain is the pause before nodes that could not be registered are tried again.
	registerAgain = time.Second
	// registrars is the number of nodes that are registered or renewed at the same time.
	registrars = 16
)

// heartbeats registers nodes, and keeps their statuses and leases.
type heartbeats struct {
	members []*member
	log     *zap.Logger
	// registered is closed when all nodes are registered.
	registered chan struct{}
}

// member is a node of heartbeats.
type member struct {
	name     string
	reporter *nodestatus.Reporter
	failing  bool // the last attempt failed
	renewals int  // from a different number on for each node, so that their reports are spread
}

func newHeartbeats(core nodestatus.Nodes, leases nodestatus.Leases, nodes []*v1.Node, log *zap.Logger) (*heartbeats, error) {
	h := &heartbeats{log: log, registered: make(chan struct{})}
	for i, object := range nodes {
		facts := nodestatus.Facts{
			Capacity: object.Status.Capacity, Allocatable: object.Status.Allocatable, Addresses: object.Status.Addresses,
			Info: object.Status.NodeInfo,
			Pressure: map[v1.NodeConditionType]bool{
				v1.NodeMemoryPressure: false, v1.NodeDiskPressure: false, v1.NodePIDPressure: false,
			},
		}
		reporter, err := nodestatus.New(nodestatus.Options{
			NodeName: object.Name, Nodes: slimNodes{core}, Leases: slimLeases{leases}, Labels: object.Labels, Taints: object.Spec.Taints,
			Facts: func(context.Context) nodestatus.Facts { return facts }, Logger: log,
		})
		if err != nil {
			return nil, err
		}
		h.members = append(h.members, &member{name: object.Name, reporter: reporter, renewals: i})
	}
	return h, nil
}

// run keeps all nodes until ctx ends.
func (h *heartbeats) run(ctx context.Context) {
	began := time.Now()
	var first, all sync.WaitGroup
	for w := range registrars {
		var own []*member
		for i := w; i < len(h.members); i += registrars {
			own = append(own, h.members[i])
		}
		first.Add(1)
		all.Go(func() {
			h.register(ctx, own)
			first.Done()
			h.keep(ctx, own, began)
		})
	}
	first.Wait()
	if ctx.Err() == nil {
		close(h.registered)
	}
	all.Wait()
}

// register registers nodes, with further attempts until all are registered or ctx ends.
func (h *heartbeats) register(ctx context.Context, own []*member) {
	for left := own; len(left) > 0 && ctx.Err() == nil; {
		var failed []*member
		for _, m := range left {
			if h.beat(ctx, m, true); m.failing {
				failed = append(failed, m)
			}
		}
		if left = failed; len(left) > 0 {
			_ = retry.Sleep(ctx, registerAgain)
		}
	}
}

// keep renews the leases of nodes in turn, spread over renewInterval. All goroutines renew at the same instants, counted
// from began, so that the process sleeps between them.
func (h *heartbeats) keep(ctx context.Context, own []*member, began time.Time) {
	turn := renewInterval / time.Duration((len(h.members)+registrars-1)/registrars)
	for round := 0; len(own) > 0 && ctx.Err() == nil; round++ {
		round = max(round, int(time.Since(began)/renewInterval)) // after a slow server, rounds are left out
		for i, m := range own {
			_ = retry.Sleep(ctx, time.Until(began.Add(renewInterval*time.Duration(round)+turn*time.Duration(i))))
			if ctx.Err() == nil {
				h.beat(ctx, m, m.failing || m.renewals%reportEvery == 0)
			}
		}
	}
}

// beat renews the lease of a node, after a report of its status if asked for.
func (h *heartbeats) beat(ctx context.Context, m *member, report bool) {
	var err error
	if m.renewals++; report {
		err = m.reporter.Report(ctx)
	}
	if err == nil {
		err = m.reporter.Renew(ctx)
	}
	if err != nil && ctx.Err() == nil && !m.failing {
		h.log.Warn("cannot renew a node; trying on", zap.String("node", m.name), zap.Error(err))
	}
	m.failing = err != nil
}

// slimNodes are nodes without managedFields.
type slimNodes struct{ nodestatus.Nodes }

func slimNode(node *v1.Node, err error) (*v1.Node, error) {
	if node != nil {
		node.ManagedFields = nil
	}
	return node, err
}

// Get implements nodestatus.Nodes.
func (n slimNodes) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Node, error) {
	return slimNode(n.Nodes.Get(ctx, name, o))
}

// Create implements nodestatus.Nodes.
func (n slimNodes) Create(ctx context.Context, node *v1.Node, o metav1.CreateOptions) (*v1.Node, error) {
	return slimNode(n.Nodes.Create(ctx, node, o))
}

// Patch implements nodestatus.Nodes.
func (n slimNodes) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*v1.Node, error) {
	return slimNode(n.Nodes.Patch(ctx, name, kind, data, o, sub...))
}

// slimLeases are leases without managedFields.
type slimLeases struct{ nodestatus.Leases }

// Create implements nodestatus.Leases.
func (l slimLeases) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return slimLease(l.Leases.Create(ctx, lease, o))
}

// Update implements nodestatus.Leases.
func (l slimLeases) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return slimLease(l.Leases.Update(ctx, lease, o))
}

func slimLease(lease *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if lease != nil {
		lease.ManagedFields = nil
	}
	return lease, err
}
