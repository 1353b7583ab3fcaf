// SPDX-License-Identifier: Apache-2.0

package statusmanager

import "time"

// Stats describes the present work of a Manager.
type Stats struct {
	// Pods is the number of pods with a status, Unsynced the number of pods whose status the API
	// server does not have.
	Pods, Unsynced int
	// Queued is the number of pods that wait for a worker, by Class; Delayed the number of pods
	// that wait for a delay to end; InFlight the number of pods that are being written.
	Queued   [classes]int
	Delayed  int
	InFlight int
	// Oldest is the age of the oldest unwritten change.
	Oldest time.Duration
	// Failing is the number of pods with a failed request and no success since.
	Failing int
}

// Stats returns the present Stats. Its cost grows with the number of pods.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Stats{Delayed: len(m.mu.delays.heap), InFlight: m.mu.lanes.busy()}
	for i := range s.Queued {
		s.Queued[i] = m.mu.lanes.queued(Class(i))
	}
	now := time.Now()
	for _, e := range m.mu.entries {
		if e.removed || e.status == nil {
			continue
		}
		s.Pods++
		if e.failures > 0 {
			s.Failing++
		}
		if e.dirty() {
			s.Unsynced++
			s.Oldest = max(s.Oldest, now.Sub(e.changed))
		}
	}
	return s
}
