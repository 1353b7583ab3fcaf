// SPDX-License-Identifier: Apache-2.0

package podconfig

import "sync"

// Readiness tells a consumer when it has handled all pods of a source. A store has seen a source as
// soon as the first snapshot is merged, while its pods may still wait in a queue. A consumer must
// not kill pods absent from a source before the snapshot has arrived (kubelet PR #15167).
//
// Each source is ready independently: the removal of a static pod need not wait for an unreachable
// API server. Readiness is safe for concurrent use.
type Readiness struct {
	mu struct {
		sync.Mutex
		// synced has a key per registered source.
		synced map[string]bool
	}
}

// NewReadiness returns a Readiness for the given sources, all not ready.
func NewReadiness(sources ...string) *Readiness {
	r := &Readiness{}
	r.mu.synced = make(map[string]bool, len(sources))
	r.Register(sources...)
	return r
}

// Register makes AllReady wait for further sources. A registered source keeps its state.
func (r *Readiness) Register(sources ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, source := range sources {
		if _, known := r.mu.synced[source]; !known {
			r.mu.synced[source] = false
		}
	}
}

// Drop unregisters a source, so that AllReady no longer waits for it. It is the counterpart of
// Store.Drop.
func (r *Readiness) Drop(source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.synced, source)
}

// Consumed records an update that the consumer has handled completely. Call it with every update.
// An update with Synced makes its source ready, and registers an unknown source.
func (r *Readiness) Consumed(u Update) {
	if !u.Synced {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.synced[u.Source] = true
}

// Ready reports whether the consumer has handled the first snapshot of the source. It is false for
// an unknown source.
func (r *Readiness) Ready(source string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.synced[source]
}

// AllReady reports whether every registered source is ready; true without sources.
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
