// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/statusmanager"
)

// requests judges an agent's requests to a peaceful API server about pods bound to the node: each
// patch changes the pod, each deletion follows a deletion by a client, and no request is about a
// pod that is gone.
func (p *peace) requests() {
	gone := make(map[types.UID]time.Duration)
	for _, r := range p.h.Requests {
		uid := r.Pod.UID
		spans := p.wanted[uid]
		if len(spans) == 0 || spans[0].static {
			continue
		}
		at, isGone := gone[uid]
		switch {
		case isGone && at+soon < r.At && !p.agentBetween(at, r.At):
			p.violate(r.At, "%s of %s (%s), which was deleted at %.3fs", r.Request, r.Pod.Name, uid, at.Seconds())
		case r.Request == statusmanager.RequestPatch && r.Err == nil && !r.Changed:
			p.violate(r.At, "a patch of %s (%s) changes nothing: %s", r.Pod.Name, uid, r.Patch)
		case r.Request == statusmanager.RequestDelete && r.Err == nil:
			if gone[uid] = r.At; !p.deletedBefore(uid, r.At) {
				p.violate(r.At, "%s (%s) is removed from the API server, and was not deleted", r.Pod.Name, uid)
			}
		}
	}
}

// deletedBefore reports whether an agent received the deletion of a pod before some time.
func (p *peace) deletedBefore(uid types.UID, at time.Duration) bool {
	return slices.ContainsFunc(p.told[uid], func(t Told) bool {
		return t.Source == podconfig.SourceAPI && t.At <= at && t.Pods[0].DeletionTimestamp != nil
	})
}
