// SPDX-License-Identifier: Apache-2.0

package openb

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Replay returns a workload in which the pods arrive at the recorded instants and run for the
// recorded time: from the scheduling, or from the creation if the pod was never scheduled, to the
// deletion. A pod without a deletion runs on. The user is the QoS class.
func Replay(pods []Pod) (sim.Arrivals, error) {
	sorted := slices.SortedStableFunc(slices.Values(pods), func(a, b Pod) int { return cmp.Compare(a.Created, b.Created) })
	arrivals := make(sim.Arrivals, len(sorted))
	timed := false
	for i, p := range sorted {
		arrivals[i] = sim.Arrival{At: p.Created, Name: p.Name, Shape: p.Shape, User: p.QoS}
		if p.Deleted >= 0 {
			timed = true
			arrivals[i].Duration = max(time.Second, p.Deleted-max(p.Created, p.Scheduled))
		}
	}
	if !timed {
		return nil, errors.New("openb: the pod list has no deletion_time, so it cannot be replayed")
	}
	return arrivals, nil
}
