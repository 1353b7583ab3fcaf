// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// WaitForUnmount returns nil when nothing of the pod is mounted, also nothing
// uncertain, and nothing is under way for it. It unmounts nothing itself: that
// happens once Pods says that the pod is gone, of which this call is a hint, too.
// Else it waits until ctx ends or Options.WaitTimeout is over; the error is then an
// *UnmountError. Each call asks for what failed to be tried again at once.
//
// Before Reconstruct it is not known what the pod has, so that it waits for that,
// too.
func (m *Manager) WaitForUnmount(ctx context.Context, uid types.UID) error {
	ctx, cancel := m.limit(ctx)
	defer cancel()
	m.mu.Lock()
	m.each(uid, func(v *volume, r *row) {
		if !r.failure.kind.sets() {
			r.failure = r.failure.excuse()
		}
	})
	m.mu.Unlock()
	m.PodChanged(uid)
	err := m.await(ctx, uid, func() (bool, error) { return m.mu.rebuilt && len(m.remaining(uid)) == 0, nil })
	if err == nil {
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

// WaitForAllPodsUnmount waits for all of them as WaitForUnmount does, and joins the
// errors.
func (m *Manager) WaitForAllPodsUnmount(ctx context.Context, uids ...types.UID) error {
	errs := make([]error, len(uids))
	var wg sync.WaitGroup
	for i, uid := range uids {
		wg.Go(func() { errs[i] = m.WaitForUnmount(ctx, uid) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// remaining returns the unique names of what the pod has or may have, or what is
// just being done for it, sorted. The lock is held.
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
