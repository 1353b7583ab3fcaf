// SPDX-License-Identifier: Apache-2.0

package node

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podworkers"
)

// reconcile is the housekeeping pass. The workers forget terminated pods, pods listed again during
// their termination are restarted, and records of pods that are gone are deleted. podsync removes
// the remains of gone pods.
func (a *Agent) reconcile() {
	// The workers know only pods that a source once listed. So an undesired pod has left its
	// source, even if other sources have not delivered pods yet.
	for _, pod := range a.host.Workers.Retain(a.host.AdmittedPods()) {
		if told := a.opts.Observer.PodRestarted; told != nil {
			told(pod)
		}
		a.update(podworkers.UpdateCreate, pod)
	}
	known := func(uid types.UID) bool {
		if _, wanted := a.host.Desired(uid); wanted {
			return true
		}
		_, works := a.host.Workers.Info(uid)
		return works
	}
	for _, f := range a.features {
		if f.Housekeep != nil {
			f.Housekeep(known)
		}
	}
	// Until every source has delivered its pods, a source may still list a pod of an earlier agent.
	complete := a.config.readiness.AllReady()
	a.host.Prune(func(uid types.UID) bool { return known(uid) || !complete && !a.host.Listing(uid).Listed })
	a.state.changed.Notify()
}
