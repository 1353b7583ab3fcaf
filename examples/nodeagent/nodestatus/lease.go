// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"
)

// renewer keeps a node's lease.
type renewer struct {
	node    string
	leases  Leases
	doubt   func() // called when others may have taken the node for dead
	log     *zap.Logger
	uid     types.UID             // of the node, its owner
	last    *coordinationv1.Lease // as the server gave it; nil = unknown
	failing bool
}

func newRenewer(node string, leases Leases, doubt func(), log *zap.Logger) *renewer {
	return &renewer{node: node, leases: leases, doubt: doubt, log: log}
}

// leaseTries is how often a renewal is tried before it is put off to the next.
const leaseTries = 5

// run renews the lease until ctx ends, from when the node is registered.
func (l *renewer) run(ctx context.Context, registered <-chan types.UID) {
	select {
	case l.uid = <-registered:
	case <-ctx.Done():
		return
	}
	renewed := time.Now()
	for ctx.Err() == nil {
		if err := l.persist(ctx); err != nil {
			l.failed(ctx, err)
		} else {
			l.succeeded()
			if time.Since(renewed) > LeaseDuration {
				l.doubt()
			}
			renewed = time.Now()
		}
		timer := time.NewTimer(LeaseInterval + rand.N(LeaseInterval/25))
		select {
		case <-timer.C:
		case l.uid = <-registered: // another node of our name
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (l *renewer) failed(ctx context.Context, err error) {
	if ctx.Err() == nil && !l.failing {
		l.log.Warn("cannot renew the lease of this node; trying on", zap.Error(err))
		l.failing = true
	}
}

func (l *renewer) succeeded() {
	if l.failing {
		l.log.Info("the lease of this node is renewed again")
		l.failing = false
	}
}

// persist renews, a few times if need be.
func (l *renewer) persist(ctx context.Context) (err error) {
	pause := minBackoff
	for range leaseTries {
		if err = l.renew(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		sleep(ctx, pause, nil)
		pause = min(2*pause, maxBackoff)
	}
	return err
}

// renew writes the lease once: over what the server gave last, or, when that is
// not known or not true any more, over what it has now.
func (l *renewer) renew(ctx context.Context) error {
	if l.last != nil {
		lease, err := l.update(ctx, l.last)
		if err == nil {
			l.last = lease
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err // what is known is still true
		}
		l.last = nil
	}
	lease, err := request(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.leases.Get(ctx, l.node, metav1.GetOptions{})
	})
	if err == nil {
		lease, err = l.update(ctx, lease)
	} else if apierrors.IsNotFound(err) {
		lease, err = l.create(ctx)
	}
	if err != nil {
		return err
	}
	l.last = lease
	return nil
}

func (l *renewer) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	lease = lease.DeepCopy()
	l.fill(lease)
	lease, err := request(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	})
	if err != nil {
		return nil, fmt.Errorf("update lease %s: %w", l.node, err)
	}
	return lease, nil
}

func (l *renewer) create(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.node, Namespace: v1.NamespaceNodeLease}}
	l.fill(lease)
	lease, err := request(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.leases.Create(ctx, lease, metav1.CreateOptions{})
	})
	if err != nil {
		return nil, fmt.Errorf("create lease %s: %w", l.node, err)
	}
	return lease, nil
}

// fill makes a lease say that its node lives now, and go with its node.
func (l *renewer) fill(lease *coordinationv1.Lease) {
	seconds := int32(LeaseDuration / time.Second)
	now := metav1.NewMicroTime(time.Now())
	lease.Spec.HolderIdentity = &l.node
	lease.Spec.LeaseDurationSeconds = &seconds
	lease.Spec.RenewTime = &now
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: l.node, UID: l.uid}}
}
