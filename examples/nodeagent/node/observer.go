// SPDX-License-Identifier: Apache-2.0

package node

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/volumemanager"
)

// Observer receives measurements of the parts, for metrics. Every func may be nil, is called
// concurrently, and must not block.
type Observer struct {
	PodRejected func(feature.Refusal)
	PodSynced   func(podworkers.SyncEvent)
	// PodRestarted: a source listed the pod again, with the same UID, while it terminated. The pod
	// now starts again.
	PodRestarted func(*v1.Pod)
	// OrphanFound: the runtime has a pod without a source, unknown to the workers.
	OrphanFound     func(types.UID)
	Probed          func(prober.Attempt)
	StatusRequested func(statusmanager.RequestEvent)
	VolumeOperated  func(volumemanager.OperationEnd)
	ImageRemoved    func(imagegc.Removed)
}
