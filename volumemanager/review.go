// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// PodChanged asks Pods about the pod, and starts the operations that have become due, above all the
// unmounting for a pod that is gone. PodChanged does not block, and returns at once for a pod
// without volumes.
func (m *Manager) PodChanged(uid types.UID) {
	m.mu.Lock()
	p, ok := m.mu.pods[uid]
	var epoch uint64
	if ok {
		epoch = p.epoch
	}
	m.mu.Unlock()
	if !ok {
		return
	}
	gone := m.options.Pods.ShouldPodRuntimeBeRemoved(uid)
	terminating := m.options.Pods.ShouldPodContainersBeTerminating(uid)
	m.mu.Lock()
	defer m.unlock()
	if p, ok = m.mu.pods[uid]; !ok || p.epoch != epoch {
		return // a newer request for the pod makes the answer obsolete
	}
	m.each(uid, func(v *volume, r *row) {
		r.review(gone, terminating)
		if gone {
			v.interrupt(r)
		}
		m.dispatch(v)
	})
	m.wakeWaiters(uid)
}

// review records the lifecycle of the pod.
func (r *row) review(gone, terminating bool) {
	r.terminating = terminating
	switch {
	case gone:
		r.desire = DesireGone
	case r.desire == DesireGone:
		r.desire = DesireKept
	}
}

// interrupt cancels the mounting for a pod that is gone. An operation on the whole volume is
// cancelled only if no other pod needs the volume.
func (v *volume) interrupt(r *row) {
	if r.busy != nil && r.busy.kind.sets() {
		r.busy.cancel(errPodGone)
	}
	if v.busy == nil || !v.busy.kind.sets() {
		return
	}
	for _, other := range v.rows {
		if other.desire == DesireMounted {
			return
		}
	}
	v.busy.cancel(errPodGone)
}

// Resync calls PodChanged for all pods with volumes. Run calls Resync every minute.
func (m *Manager) Resync() {
	m.mu.Lock()
	uids := slices.Sorted(maps.Keys(m.mu.pods))
	m.mu.Unlock()
	for _, uid := range uids {
		m.PodChanged(uid)
	}
}

// Reconcile performs all due operations, including operations that become due meanwhile, and
// returns when none is due. Before that, Reconcile calls Reconstruct if necessary, and Resync. A
// failed operation is in back-off, so each operation is tried once. Reconcile does not wait for
// operations started by Run.
//
// Reconcile drives the manager without Run, in a simulator or a test. The error joins the errors of
// the operations. After Run has ended, Reconcile returns ErrStopped.
func (m *Manager) Reconcile(ctx context.Context) error {
	m.mu.Lock()
	if m.mu.life == lifecycle.Stopped {
		m.mu.Unlock()
		return ErrStopped
	}
	m.pending.Add(1)
	m.mu.Unlock()
	defer m.pending.Done()
	errs := []error{m.Reconstruct(ctx)}
	m.Resync()
	for ctx.Err() == nil {
		due := m.take(ctx)
		if len(due) == 0 {
			return errors.Join(errs...)
		}
		ended := make([]error, len(due))
		var wg sync.WaitGroup
		for i, d := range due {
			wg.Go(func() { ended[i] = m.carryOut(d.ctx, d.operation) })
		}
		wg.Wait()
		errs = append(errs, ended...)
	}
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// dueOperation is a prepared operation with its context.
type dueOperation struct {
	*operation
	ctx context.Context
}

// take prepares every due operation; the caller carries them out.
func (m *Manager) take(ctx context.Context) []dueOperation {
	m.mu.Lock()
	defer m.unlock()
	now := time.Now()
	var due []dueOperation
	for _, name := range slices.Sorted(maps.Keys(m.mu.volumes)) {
		v := m.mu.volumes[name]
		for _, s := range v.plan(now).steps {
			o := m.begin(v, s, now)
			due = append(due, dueOperation{o, m.arrange(ctx, o)})
		}
	}
	return due
}

// Plan returns the operations that are due now, sorted by volume and pod. Plan starts none.
func (m *Manager) Plan() []Operation {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var ops []Operation
	for _, name := range slices.Sorted(maps.Keys(m.mu.volumes)) {
		v := m.mu.volumes[name]
		for _, s := range v.plan(now).steps {
			ops = append(ops, v.prepare(s, m.options.Root, now).describe())
		}
	}
	return ops
}
