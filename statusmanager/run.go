// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"context"
	"errors"
	"time"

	"github.com/keelson-dev/keelson/internal/bigstack"
	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// goneResyncs: a pod missing on the API server is requested again after goneResyncs intervals
// between resyncs, if no Pods can report the pod.
const goneResyncs = 10

// ErrAlreadyRun is returned by the second Run of a Manager.
var ErrAlreadyRun = errors.New("statusmanager: Run was called before")

// Run writes the stored statuses and all later changes until ctx ends, and then continues for
// Options.Drain. Run returns nil as soon as every request has ended. A second call of Run returns
// ErrAlreadyRun.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.open(); err != nil {
		return err
	}
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.loop(ctx, requests)
	m.close()
	drain, done := context.WithTimeout(requests, m.options.Drain)
	defer done()
	m.loop(drain, requests)
	cancel()
	m.flights.Wait()
	close(m.stopped)
	return nil
}

func (m *Manager) open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.life != lifecycle.New {
		return ErrAlreadyRun
	}
	m.mu.life = lifecycle.Running
	return nil
}

func (m *Manager) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.life = lifecycle.Stopped
}

// loop starts requests until ctx ends or, once the Manager is closed, no work is left. A timer that waits is
// replaced, not reset: after a reset the runtime of Go looks through all timers of a bubble of virtual time.
func (m *Manager) loop(ctx, requests context.Context) {
	looked := time.Now()
	resync := time.NewTicker(resyncInterval)
	var due time.Time // when again fires, if later than now
	again := time.AfterFunc(resyncInterval, m.wake.Notify)
	for ctx.Err() == nil {
		next, over := m.dispatch(requests)
		if over {
			return
		}
		if !next.Equal(due) {
			again.Stop()
			if due = next; !due.IsZero() {
				again = time.AfterFunc(time.Until(due), m.wake.Notify)
			}
		}
		select {
		case <-ctx.Done():
		case <-m.wake:
		case now := <-resync.C:
			if now.Sub(looked) < m.options.Resync-resyncInterval/2 {
				m.resync((*entry).unsettled)
				continue
			}
			looked = now
			m.Resync()
		}
	}
}

// dispatch starts every permitted request, and returns the time of the next check; zero if only
// wake can bring work. over means that a closed Manager has no work left.
func (m *Manager) dispatch(requests context.Context) (next time.Time, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.take(); e != nil; e = m.take() {
		m.flights.Go(func() {
			bigstack.Grow()
			m.fly(requests, e)
		})
	}
	next, _ = m.mu.delays.next()
	idle := m.mu.lanes.busy() == 0 && len(m.mu.delays.heap) == 0 // a free worker takes what waits
	return next, idle && m.mu.life == lifecycle.Stopped
}

// take marks the next entry as busy and returns it; nil without a waiting entry or a free worker.
// The lock is held.
func (m *Manager) take() *entry {
	now := time.Now()
	m.promote(now)
	t := m.mu.lanes.pop(now)
	if t == nil {
		return nil
	}
	e := t.entry
	e.busy, e.again, e.holdUntil = true, false, time.Time{}
	return e
}

// promote moves entries with an expired delay to the queue. The lock is held.
func (m *Manager) promote(now time.Time) {
	for w := m.mu.delays.pop(now); w != nil; w = m.mu.delays.pop(now) {
		m.schedule(w.entry)
	}
}

// schedule queues an entry, or delays it until the budget, back-off or hold permits a request. The
// lock is held.
func (m *Manager) schedule(e *entry) {
	switch {
	case m.options.Patcher == nil, e.removed, e.status == nil:
		return
	case e.busy:
		e.again = true
		return
	}
	now, due := time.Now(), e.budget.due()
	for _, until := range []time.Time{e.notUntil, e.holdUntil} {
		if until.After(due) {
			due = until
		}
	}
	if due.After(now) && !e.ticket.queued {
		m.mu.delays.set(&e.wait, due)
	} else {
		m.mu.delays.remove(&e.wait)
		m.mu.lanes.push(&e.ticket, e.lane(), e.class(), now)
	}
	m.wake.Notify()
}

// lane returns the lane in which the entry queues. The lock is held.
func (e *entry) lane() lane {
	switch {
	case e.failures > 0 || e.budget.quick == 0 || e.pace == paceSlow:
		return laneTroubled
	case e.pace == paceUnknown:
		return laneNew
	}
	return laneGood
}

// SyncBatch writes the due statuses, one pod after the other, the most urgent first, and returns
// the number of pods. A simulation may call SyncBatch instead of Run, which writes many pods
// concurrently.
func (m *Manager) SyncBatch(ctx context.Context) int {
	for n := 0; ; n++ {
		m.mu.Lock()
		e := m.take()
		m.mu.Unlock()
		if e == nil || ctx.Err() != nil {
			m.giveBack(e)
			return n
		}
		m.fly(ctx, e)
	}
}

// giveBack undoes take.
func (m *Manager) giveBack(e *entry) {
	if e == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e.again = true
	m.land(e)
}

// Resync checks every pod for changes without an event: a pod that is now safe to end, an
// unobserved change in Pods, a pod that reappeared on the server. Run calls Resync at each end of
// Options.Resync, and checks pods that wait for something every minute.
func (m *Manager) Resync() { m.resync(func(*entry) bool { return true }) }

// resync checks the pods for which f returns true. f is called with the lock held.
func (m *Manager) resync(f func(*entry) bool) {
	for _, e := range m.entries(f) {
		if news := m.lookUp(e); m.worthAnotherLook(e, news) {
			m.reconsider(e)
		}
	}
}

// worthAnotherLook reports whether something may have changed for e by itself.
func (m *Manager) worthAnotherLook(e *entry, news bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.remote.gone && m.options.Pods == nil && !e.remote.deleted && // the pod may have reappeared, or was never gone
		time.Since(e.remote.goneSince) >= goneResyncs*resyncInterval {
		e.remote.gone, e.remote.status = false, nil
		return true
	}
	if e.remote.refusesEnd(e.status) { // the pod cannot be deleted before the server stores its end
		e.remote.refused = nil
		return true
	}
	return news || e.unsettled()
}
