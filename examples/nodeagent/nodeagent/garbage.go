// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
)

// garbageInterval is how often ended containers, old sandboxes and logs that
// nobody needs are collected, as in the kubelet.
const garbageInterval = time.Minute

// collectGarbage removes what pods leave while they live, and what was missed
// when they went, until ctx ends. What housekeeping removes at once is gone then.
func (a *Agent) collectGarbage(ctx context.Context) {
	policy := runtime.DefaultGCPolicy()
	policy.LogRoot = a.opts.LogDir
	tick := time.NewTicker(garbageInterval)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		text := ""
		err := a.manager.GarbageCollect(ctx, policy, runtime.GCQuery{Fate: a.fate, Reported: a.reported})
		if err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != last && text != "" {
			a.log.Warn("cannot collect all garbage", zap.Error(err))
		}
		last = text
	}
}

// fate says what still becomes of a pod. Until every source has spoken any pod
// may be wanted.
func (a *Agent) fate(uid types.UID) runtime.PodFate {
	_, wanted := a.pods.get(uid)
	switch {
	case !a.readiness.AllReady():
		return runtime.PodLives
	case !wanted && a.workers.ShouldPodContentBeRemoved(uid):
		return runtime.PodGone
	case !a.pods.isRejected(uid) && a.workers.ShouldPodRuntimeBeRemoved(uid):
		return runtime.PodOver
	}
	return runtime.PodLives
}

// reported says whether nobody needs an instance's record any more to know how it
// ended. The pod's status, as it was published last, may have it as running: its end is
// yet to be told. Or it tells of its end, which the next agent has to know, too.
func (a *Agent) reported(uid types.UID, id runtime.ContainerID) bool {
	status, known := a.statuses.published(uid)
	if !known {
		return false
	}
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			last := list[i].LastTerminationState.Terminated
			if list[i].ContainerID == id.String() || last != nil && last.ContainerID == id.String() {
				return false
			}
		}
	}
	return true
}
