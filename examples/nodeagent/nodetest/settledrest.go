// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podworkers"
)

// A crash loop with the longest back-off makes a handful of statuses in restTime. The agent sends at most one request for a pod
// in ten seconds once nothing new is to be said.
const (
	restTime     = 5 * time.Minute
	restRequests = 30
)

// atRest checks that an agent sends few requests for a pod while nothing happens.
func (p *player) atRest(quiet time.Duration) error {
	if quiet <= restTime {
		return nil
	}
	h := p.node.History()
	sent := make(map[types.UID]int)
	for _, r := range h.Requests {
		if r.At > h.Taken-restTime {
			sent[r.Pod.UID]++
		}
	}
	for uid, n := range sent {
		if n > restRequests {
			return fmt.Errorf("%d requests to the API server for %s in %v of quiet", n, uid, restTime)
		}
	}
	return nil
}

// workerOf checks that the worker of a pod says whether the pod has ended.
func (p *player) workerOf(uid types.UID, status *v1.PodStatus) error {
	for of, info := range p.node.assembly.Workers() {
		if of == uid && (info.State == podworkers.StateTerminated) != over(status.Phase) {
			return fmt.Errorf("its phase is %s, and its worker is at stage %s", status.Phase, info.State)
		}
	}
	return nil
}
