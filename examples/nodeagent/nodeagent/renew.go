// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// renewals are the pods that were told to end. If one comes back under its UID, or
// with another manifest, its new life begins with nothing of the old: containers
// that ended then say nothing of whether those of the new manifest have to run.
type renewals struct {
	mu struct {
		sync.Mutex
		due map[types.UID]bool
	}
}

func newRenewals() *renewals {
	r := &renewals{}
	r.mu.due = make(map[types.UID]bool)
	return r
}

func (r *renewals) mark(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.due[uid] = true
}

func (r *renewals) isDue(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.due[uid]
}

// keep forgets every pod for which keep says no.
func (r *renewals) keep(keep func(types.UID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.mu.due, func(uid types.UID, _ bool) bool { return !keep(uid) })
}

// renew removes what a former life of the pod has left, if there was one.
func (s *syncer) renew(ctx context.Context, uid types.UID) error {
	if !s.renewals.isDue(uid) {
		return nil
	}
	if err := s.agent.manager.RemovePod(ctx, uid); err != nil {
		return fmt.Errorf("remove what is left of the pod's former life: %w", err)
	}
	s.agent.statuses.drop(uid)
	s.renewals.keep(func(other types.UID) bool { return other != uid })
	return nil
}
