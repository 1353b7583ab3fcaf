// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/volumemanager"
)

// Observer is told what the parts did, for metrics. Every func may be nil, is
// called concurrently, and must not block.
type Observer struct {
	PodRejected     func(Rejection)
	PodSynced       func(podworkers.SyncEvent)
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
