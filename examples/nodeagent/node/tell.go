// SPDX-License-Identifier: Apache-2.0

package node

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// previous sets in.Previous to the pod's last status, which may be the status of a refusal.
func (a *Agent) previous(pod *v1.Pod, in *podstatus.Input) {
	*in.Previous = a.host.Status(pod)
}

// publish passes a new status of a pod to the features and to Options.Status. Containers of an
// earlier life of a refused static pod may end after the refusal.
func (a *Agent) publish(pod *v1.Pod, status v1.PodStatus) {
	status = a.host.WithRefusal(pod.UID, status)
	for _, f := range a.features {
		if f.Published != nil {
			f.Published(pod, status)
		}
	}
	if a.opts.Status != nil {
		a.opts.Status(pod, status)
	}
	a.state.changed.Notify()
}

// ended calls Ended of the features: no container of the pod runs, and the volumes are unmounted.
//
// If a static pod gets a new manifest under the same UID and the manifest is refused, the features
// receive the refused pod. The worker knows only the pod of the old manifest.
func (a *Agent) ended(pod *v1.Pod) {
	if now := a.host.Listing(pod.UID); now.Refusal != nil && now.Desired != nil {
		pod = now.Desired
	}
	for _, f := range a.features {
		if f.Ended != nil {
			f.Ended(pod)
		}
	}
}

// refuse makes a pod Failed until its manifest changes, as the kubelet does.
func (a *Agent) refuse(pod *v1.Pod, reason, message string) {
	status := a.host.Status(pod)
	status.Phase = v1.PodFailed
	status.Reason = reason
	status.Message = feature.RefusedPrefix + message
	a.host.SetEntry(pod.UID, feature.Refused, &status)
	a.publish(pod, status)
	a.endUnlessWorked(pod)
	a.host.TellRefusal(pod, reason, message)
}

// endUnlessWorked calls ended for a refused pod without a worker. The worker of a pod calls ended
// itself.
func (a *Agent) endUnlessWorked(pod *v1.Pod) {
	if _, worked := a.host.Workers.Info(pod.UID); !worked {
		a.ended(pod)
	}
}
