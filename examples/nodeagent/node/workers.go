// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// podWorkers adapts the workers to podsync.Workers. A held pod counts as a pod with running
// containers. No pod counts as gone before every source has delivered its pods.
type podWorkers struct {
	*podworkers.Workers
	host  *feature.Host
	found func(types.UID) // Observer.OrphanFound
}

// StopUnknown implements podsync.Workers.
func (w podWorkers) StopUnknown(uid types.UID, namespace, name string, grace time.Duration) (stopping bool, err error) {
	_, known := w.Info(uid)
	if !known && w.isAwaited(uid) {
		return false, nil
	}
	stopping, err = w.Workers.StopUnknown(uid, namespace, name, grace)
	if stopping && !known && w.found != nil {
		w.found(uid)
	}
	return stopping, err
}

// Synced implements podsync.Workers.
func (w podWorkers) Synced() <-chan struct{} { return w.host.Sourced }

// CouldHaveRunningContainers implements podsync.Workers.
func (w podWorkers) CouldHaveRunningContainers(uid types.UID) bool {
	return w.isUndecided(uid) || w.Workers.CouldHaveRunningContainers(uid)
}

// ShouldPodRuntimeBeRemoved implements podsync.Workers.
func (w podWorkers) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	return !w.isUndecided(uid) && w.Workers.ShouldPodRuntimeBeRemoved(uid)
}

// ShouldPodContentBeRemoved implements podsync.Workers. The content of a pod stays until the pod
// has left its source and the workers have forgotten it. The content of an evicted pod is removed
// when the pod ends, to free disk space.
func (w podWorkers) ShouldPodContentBeRemoved(uid types.UID) bool {
	_, wanted := w.host.Desired(uid)
	info, known := w.Info(uid)
	return !wanted && !known && w.host.HasSourced() || info.Evicted && info.Finished
}

// isUndecided reports whether a pod unknown to the workers may still be given to them.
func (w podWorkers) isUndecided(uid types.UID) bool {
	_, known := w.Info(uid)
	return !known && (!w.host.HasSourced() || w.isAwaited(uid))
}

// isAwaited reports whether a pod is to be given to the workers: the pod is held, or the loop has
// admitted the pod and is about to pass it on. The goroutine that looks for remains runs beside the
// loop, and must not stop the containers of an earlier agent in between.
func (w podWorkers) isAwaited(uid types.UID) bool {
	l := w.host.Listing(uid)
	return l.Desired != nil && l.Entry != feature.Refused
}

// Event reasons of the kubelet (1.36) for failures of whole pods.
const (
	eventFailedSync       = "FailedSync"
	eventFailedValidation = "FailedValidation"
	eventFailedKillPod    = "FailedKillPod"
)

// synced handles the end of every worker call. The first failure of several in a row is recorded as
// an event.
func (a *Agent) synced(e podworkers.SyncEvent) {
	if told := a.opts.Observer.PodSynced; told != nil {
		told(e)
	}
	if e.Err == nil && (e.State == podworkers.StateTerminated || e.Pod == nil) { // a source may have configured an orphan meanwhile
		a.state.housekeeping.Notify()
	}
	switch terminating := e.State == podworkers.StateTerminating; {
	case e.Err == nil && terminating:
		for _, f := range a.features {
			if f.Stopped != nil {
				f.Stopped(e.UID)
			}
		}
	case e.Err == nil || e.Interrupted || e.Attempt > 0 || e.Pod == nil:
	case terminating:
		a.host.Event(e.Pod, v1.EventTypeWarning, eventFailedKillPod, "error killing pod: "+e.Err.Error())
	case errors.Is(e.Err, podsync.ErrRead):
		a.host.Event(e.Pod, v1.EventTypeWarning, eventFailedSync, "error determining status: "+e.Err.Error())
	}
}
