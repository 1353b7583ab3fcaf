// SPDX-License-Identifier: Apache-2.0

package statusmanager

import "time"

// Stats is how a Manager is doing.
type Stats struct {
	// Pods is how many have a status, Unsynced how many of these the API server does not have as they are.
	Pods, Unsynced int
	// Queued is how many wait for a worker, by Class; Delayed how many wait for time to pass; InFlight how many are being
	// written.
	Queued   [classes]int
	Delayed  int
	InFlight int
	// Oldest is the age of the oldest change that the API server does not have.
	Oldest time.Duration
	// Outage: the API server is thought to be down.
	Outage bool
}

// Stats returns how the manager is doing now. It looks at every pod.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Stats{Delayed: len(m.mu.delays.heap), InFlight: m.mu.busy, Outage: m.mu.outage.on()}
	for i := range m.mu.queue.lists {
		s.Queued[i] = m.mu.queue.lists[i].len
	}
	now := time.Now()
	for _, e := range m.mu.entries {
		if e.removed || e.status == nil {
			continue
		}
		s.Pods++
		if e.dirty() {
			s.Unsynced++
			s.Oldest = max(s.Oldest, now.Sub(e.changed))
		}
	}
	return s
}
