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
)

// PodChanged asks Pods about the pod, and lets begin what that makes due: above
// all, the unmounting of one that is gone. It does not block, and costs nothing for
// a pod without volumes.
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
	terminating := gone || m.options.Pods.ShouldPodContainersBeTerminating(uid)
	m.mu.Lock()
	defer m.unlock()
	if p, ok = m.mu.pods[uid]; !ok || p.epoch != epoch {
		return // the pod was asked for since: the answer is old
	}
	m.each(uid, func(v *volume, r *row) {
		changed := r.review(gone, terminating)
		if changed && gone {
			v.interrupt(r)
		}
		m.dispatch(v)
		if changed {
			m.tell(uid)
		}
	})
}

// review notes where the pod is in its life, and reports whether that is new.
func (r *row) review(gone, terminating bool) bool {
	was, ended := r.desire, r.terminating
	r.terminating = terminating
	switch {
	case gone:
		r.desire = DesireGone
	case r.desire == DesireGone:
		r.desire = DesireKept
	}
	return was != r.desire || ended != terminating
}

// interrupt cancels what is under way for a pod that is gone.
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

// Resync does PodChanged for all pods with volumes. Run does it every
// Options.Resync.
func (m *Manager) Resync() {
	m.mu.Lock()
	uids := slices.Sorted(maps.Keys(m.mu.pods))
	m.mu.Unlock()
	for _, uid := range uids {
		m.PodChanged(uid)
	}
}

// Reconcile brings the world as far as it goes now: it finds out what is mounted
// if that has not happened yet, looks at all pods, does every operation that is
// due, those that this makes due as well, and returns when none is. What failed is
// held until its back-off is over, so each operation is tried once. Operations
// that Run has begun are not waited for.
//
// With Run it is not needed. Without, it is how a simulator or a test drives the
// manager. The error joins those of the operations. It returns ErrStopped after
// Run has ended.
func (m *Manager) Reconcile(ctx context.Context) error {
	m.mu.Lock()
	if m.mu.life == lifeStopped {
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

// dueOperation is one that was begun, with its context.
type dueOperation struct {
	*operation
	ctx context.Context
}

// take begins everything that is due, to be carried out by the caller.
func (m *Manager) take(ctx context.Context) []dueOperation {
	m.mu.Lock()
	defer m.unlock()
	now := time.Now()
	var due []dueOperation
	for _, name := range slices.Sorted(maps.Keys(m.mu.volumes)) {
		v := m.mu.volumes[name]
		m.dispatch(v)
		if m.mu.volumes[name] == nil {
			continue
		}
		for _, s := range v.plan(now).steps {
			o := m.begin(v, s, now)
			due = append(due, dueOperation{o, m.arrange(ctx, o)})
		}
	}
	return due
}

// Plan returns the operations that would begin now, in the order of volumes and
// pods, without beginning them.
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
