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

	"github.com/keelson-dev/keelson/internal/retry"
)

// renewer renews a node's lease.
type renewer struct {
	node   string
	leases Leases
	valid  time.Duration // of a lease
	doubt  func()        // called when a controller may have marked the node as dead
	outage outage
	uid    types.UID             // the node's UID, for the owner reference
	last   *coordinationv1.Lease // as returned by the server; nil: unknown
}

func newRenewer(o Options, doubt func()) *renewer {
	return &renewer{node: o.NodeName, leases: o.Leases, valid: o.LeaseDuration, doubt: doubt, outage: outage{
		log: o.Logger, begin: "cannot renew the lease of this node; trying on", end: "the lease of this node is renewed again",
	}}
}

// leaseTries is the number of attempts per renewal.
const leaseTries = 5

// run renews the lease from the registration of the node until ctx ends.
func (l *renewer) run(ctx context.Context, registered <-chan types.UID) {
	select {
	case l.uid = <-registered:
	case <-ctx.Done():
		return
	}
	renewed := time.Now()
	for ctx.Err() == nil {
		err := l.persist(ctx)
		l.outage.note(ctx, err)
		if err == nil {
			if time.Since(renewed) > l.valid {
				l.doubt()
			}
			renewed = time.Now()
		}
		interval := l.valid / leaseRenewals
		select {
		case <-time.After(interval + rand.N(interval/25)): // spread, for many nodes
		case l.uid = <-registered: // the node was recreated
		case <-ctx.Done():
		}
	}
}

// persist renews the lease, with retries.
func (l *renewer) persist(ctx context.Context) (err error) {
	pause := minBackoff
	for range leaseTries {
		if err = l.renew(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		_ = retry.Sleep(ctx, pause)
		pause = min(2*pause, maxBackoff)
	}
	return err
}

// renew makes one attempt. It updates the lease as last returned by the server. If that version is
// unknown or outdated, it reads the lease first.
func (l *renewer) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.valid)
	defer cancel()
	if l.last != nil {
		lease, err := l.update(ctx, l.last)
		if err == nil {
			l.last = lease
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err // the known version is still current
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

// fill sets the renewal time, the holder and the owner of a lease.
func (l *renewer) fill(lease *coordinationv1.Lease) {
	seconds := int32(l.valid / time.Second)
	now := metav1.NewMicroTime(time.Now())
	lease.Spec.HolderIdentity = &l.node
	lease.Spec.LeaseDurationSeconds = &seconds
	lease.Spec.RenewTime = &now
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: l.node, UID: l.uid}}
}
