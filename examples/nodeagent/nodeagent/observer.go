// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/volumemanager"
)

// Observer is told what the parts did, for metrics. Every func may be nil, is
// called concurrently, and must not block.
type Observer struct {
	PodRejected func(Rejection)
	PodSynced   func(podworkers.SyncEvent)
	// PodRestarted: the pod came back, under its UID, while it ended; now it begins
	// anew.
	PodRestarted func(*v1.Pod)
	// OrphanFound: the runtime has a pod that no source wants, and that was unknown.
	OrphanFound     func(types.UID)
	Probed          func(prober.Attempt)
	StatusRequested func(statusmanager.RequestEvent)
	VolumeOperated  func(volumemanager.OperationEnd)
	ImageRemoved    func(imagegc.Removed)
}

// Rejection is a pod that was refused when it asked to come in.
type Rejection struct {
	Pod     *v1.Pod // not to be written
	Reason  string  // as in the pod's status: one word
	Message string  // everything that stands in its way
}
