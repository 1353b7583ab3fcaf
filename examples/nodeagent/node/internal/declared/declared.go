// SPDX-License-Identifier: Apache-2.0

// Package declared terminates a pod after another client has set the phase on the API server to
// Failed or Succeeded. An example of a client is the controller for lost nodes. The feature keeps
// the phase in the pod's status, because a status sent by the agent at the same moment may have
// overwritten the phase on the API server.
package declared

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/podstatus"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// declaration is a terminal phase set by another client, with reason and message.
type declaration struct {
	phase           v1.PodPhase
	reason, message string
}

// New returns the feature.
func New(h *feature.Host) feature.Feature {
	declarations := feature.NewSlot[declaration](h.Table)
	return feature.Feature{
		Name: "declared",
		ConfigUpdated: func(u podconfig.Update) {
			for _, pod := range u.Pods {
				_, wanted := h.Desired(pod.UID)
				if u.Op == podconfig.OpReconcile && wanted && podfacts.IsTerminal(pod.Status.Phase) && !h.Workers.ShouldPodContainersBeTerminating(pod.UID) {
					declarations.Set(pod.UID, declaration{pod.Status.Phase, pod.Status.Reason, pod.Status.Message})
				}
			}
		},
		Hook: podsync.Hook{Input: func(pod *v1.Pod, in *podstatus.Input) {
			d := declarations.Get(pod.UID)
			if d.phase == "" || podfacts.IsTerminal(pod.Status.Phase) {
				return
			}
			upheld := *in.Pod
			upheld.Status.Phase, upheld.Status.Reason, upheld.Status.Message = d.phase, d.reason, d.message
			in.Pod = &upheld
		}},
	}
}
