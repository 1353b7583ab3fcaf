// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// WaitForUnmount returns nil when the pod has no mounted or uncertain volume and no operation under
// way. The volumes are unmounted once Pods reports the pod as gone; the call makes the Manager ask
// Pods. Without Options.Pods, the call itself marks the pod as gone.
//
// If volumes remain when ctx ends or 2 min 3 s are over, the error is an *UnmountError.
// Each call ends the back-off of failed teardowns. After a restart the call also waits for
// Reconstruct.
func (m *Manager) WaitForUnmount(ctx context.Context, uid types.UID) error {
	if m.own != nil {
		m.own.release(uid)
	}
	ctx, cancel := m.limit(ctx)
	defer cancel()
	m.mu.Lock()
	m.each(uid, func(v *volume, r *row) {
		if !r.failure.kind.sets() {
			r.failure = r.failure.endBackoff()
		}
	})
	m.mu.Unlock()
	m.PodChanged(uid)
	err := m.await(ctx, uid, func() (bool, error) { return m.mu.rebuilt && len(m.remaining(uid)) == 0, nil })
	if err == nil {
		if m.own != nil {
			m.own.forget(uid)
		}
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := &UnmountError{PodUID: uid, Mounted: m.remaining(uid)}
	reasons := []error{err}
	m.each(uid, func(v *volume, r *row) {
		reasons = append(reasons, r.failure.err)
		reasons = append(reasons, v.underWay(r)...)
	})
	e.Err = joinDistinct(reasons)
	return e
}

// WaitForAllPodsUnmount calls WaitForUnmount for all uids at once, and joins the errors.
func (m *Manager) WaitForAllPodsUnmount(ctx context.Context, uids ...types.UID) error {
	errs := make([]error, len(uids))
	var wg sync.WaitGroup
	for i, uid := range uids {
		wg.Go(func() { errs[i] = m.WaitForUnmount(ctx, uid) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// remaining returns the unique names of the pod's volumes that are mounted, uncertain or in an
// operation, sorted. The lock is held.
func (m *Manager) remaining(uid types.UID) []string {
	var names []string
	m.each(uid, func(v *volume, r *row) {
		if r.state != StateNotMounted || r.busy != nil {
			names = append(names, string(v.name))
		}
	})
	slices.Sort(names)
	return names
}
