// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// renewals are the pods that were told to end. If one comes back under its UID, or
// with another manifest, its new life begins with nothing of the old: containers
// that ended then say nothing of whether those of the new manifest have to run.
type renewals struct{ *byUID[bool] }

func newRenewals() *renewals { return &renewals{newByUID[bool]()} }

func (r *renewals) mark(uid types.UID) { r.set(uid, true) }

func (r *renewals) isDue(uid types.UID) bool { return r.get(uid) }

// renew removes what a former life of the pod has left, if there was one.
func (s *syncer) renew(ctx context.Context, uid types.UID) error {
	if !s.renewals.isDue(uid) {
		return nil
	}
	if err := s.agent.manager.RemovePod(ctx, uid); err != nil {
		return fmt.Errorf("remove what is left of the pod's former life: %w", err)
	}
	s.agent.statuses.drop(uid)
	s.renewals.set(uid, false)
	return nil
}
