// SPDX-License-Identifier: Apache-2.0

package podconfig

import "sync"

// Readiness is the consumer's side of "all that a source holds is known". A store has seen a source as soon as the
// snapshot is merged, while its pods may still wait in a queue; whoever kills or deletes what no source has must not act
// before they have arrived (kubelet PR #15167).
//
// Each source is ready on its own: the removal of a static pod, say, need not wait for an API server that is down.
// It is safe for concurrent use.
type Readiness struct {
	mu struct {
		sync.Mutex
		// synced has a key per source that counts.
		synced map[string]bool
	}
}

// NewReadiness returns a Readiness of these sources, none of them ready.
func NewReadiness(sources ...string) *Readiness {
	r := &Readiness{}
	r.mu.synced = make(map[string]bool, len(sources))
	r.Register(sources...)
	return r
}

// Register makes AllReady wait for further sources. One that is there already stays as it is.
func (r *Readiness) Register(sources ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, source := range sources {
		if _, known := r.mu.synced[source]; !known {
			r.mu.synced[source] = false
		}
	}
}

// Drop makes AllReady wait no longer for a source, the counterpart of Store.Drop.
func (r *Readiness) Drop(source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.synced, source)
}

// Consumed takes note of an update that the consumer has handled completely. Every update may be passed; one with
// Synced makes its source ready, and registers it if need be.
func (r *Readiness) Consumed(u Update) {
	if !u.Synced {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.synced[u.Source] = true
}

// Ready tells whether the consumer knows all that the source held at its first snapshot; false for an unknown source.
func (r *Readiness) Ready(source string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.synced[source]
}

// AllReady tells whether every registered source is ready; true if there are none.
func (r *Readiness) AllReady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, synced := range r.mu.synced {
		if !synced {
			return false
		}
	}
	return true
}
