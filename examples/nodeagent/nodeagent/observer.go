// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/volumemanager"
)

// Observer is told what the parts did, for metrics. Every func may be nil, is
// called concurrently, and must not block.
type Observer struct {
	PodSynced       func(podworkers.SyncEvent)
	Probed          func(prober.Attempt)
	StatusRequested func(statusmanager.RequestEvent)
	VolumeOperated  func(volumemanager.OperationEnd)
	ImageRemoved    func(imagegc.Removed)
}
