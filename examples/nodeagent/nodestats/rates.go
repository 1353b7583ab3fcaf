// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/recent"
)

const (
	// window is the shortest time over which a rate is computed.
	window = 5 * time.Second
	// longest is the age at which an earlier sample is too old for a rate (kubelet 1.36).
	longest = 10 * time.Minute
)

// rates computes the processor usage of containers from their counters. The zero value is ready.
type rates struct {
	known recent.Map[counterKey, history]
}

// counterKey identifies a counter: that of a whole pod, that of a container by its ID, or a name of
// this package.
type counterKey struct {
	pod  types.UID
	name string
}

// history holds samples of one counter.
type history struct {
	base, last sample // base is zero, or at least a window older than last
	highest    uint64 // value of the counter
}

type sample struct {
	at time.Time
	ns uint64
}

// observe records a sample of the counter called key. It returns the counter, which does not fall
// between two calls, and the rate in cores × 10⁹ if it is known.
func (r *rates) observe(key counterKey, s sample) (ns, cores uint64, known bool) {
	h := r.known.Get(key)
	h.highest = max(h.highest, s.ns)
	s.ns = h.highest
	if h.last.at.IsZero() || s.at.Sub(h.last.at) >= longest {
		h.base, h.last = sample{}, s
		return s.ns, 0, false
	}
	if s.at.Sub(h.last.at) >= window {
		h.base, h.last = h.last, s
	}
	elapsed := s.at.Sub(h.base.at)
	if h.base.at.IsZero() || elapsed <= 0 {
		return s.ns, 0, false
	}
	cores = uint64(float64(s.ns-min(s.ns, h.base.ns)) / elapsed.Seconds())
	return s.ns, cores, true
}
