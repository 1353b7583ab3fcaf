// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"context"
	"errors"
	"sync"
	"time"
)

// goneResyncs: a pod that the API server did not have is asked for again after so many intervals between resyncs, if
// nobody else can tell that it is there.
const goneResyncs = 10

// ErrAlreadyRun is returned by the second Run of a Manager.
var ErrAlreadyRun = errors.New("statusmanager: Run was called before")

// Run writes what was set, and what is set from now on, until ctx ends; then it writes on for Options.Drain. It returns
// nil as soon as every request has ended. It may be called once; a second call returns ErrAlreadyRun.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.open(); err != nil {
		return err
	}
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var flights sync.WaitGroup
	m.loop(ctx, requests, &flights)
	m.close()
	if m.options.Drain > 0 {
		drain, done := context.WithTimeout(requests, m.options.Drain)
		m.loop(drain, requests, &flights)
		done()
	}
	cancel()
	flights.Wait()
	close(m.stopped)
	return nil
}

func (m *Manager) open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.life != lifeNew {
		return ErrAlreadyRun
	}
	m.mu.life = lifeRunning
	return nil
}

func (m *Manager) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.life = lifeStopped
}

// loop begins requests until ctx ends or, once the Manager is closed, none is left to begin or to wait for.
func (m *Manager) loop(ctx, requests context.Context, flights *sync.WaitGroup) {
	resync := time.Now().Add(m.options.ResyncInterval)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if m.options.ResyncInterval > 0 && !time.Now().Before(resync) {
			m.Resync()
			resync = time.Now().Add(m.options.ResyncInterval)
		}
		next, over := m.dispatch(requests, flights)
		if over {
			return
		}
		if m.options.ResyncInterval > 0 && (next.IsZero() || resync.Before(next)) {
			next = resync
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer.C:
		}
	}
}

// dispatch begins every request that may be begun, and returns when to look again; zero: when woken. Over means that
// nothing is left to be done by a Manager that is closed.
func (m *Manager) dispatch(requests context.Context, flights *sync.WaitGroup) (next time.Time, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.promote(time.Now())
	for m.mu.busy < m.options.Workers {
		e := m.take()
		if e == nil {
			break
		}
		flights.Go(func() { m.fly(requests, e) })
	}
	next, _ = m.mu.delays.next()
	if m.mu.outage.on() && m.mu.busy == 0 && m.mu.queue.len() > 0 && (next.IsZero() || m.mu.outage.resumeAt.Before(next)) {
		next = m.mu.outage.resumeAt
	}
	idle := m.mu.busy == 0 && m.mu.queue.len() == 0 && len(m.mu.delays.heap) == 0
	return next, idle && m.mu.life == lifeStopped
}

// take makes the entry whose turn it is busy; nil if there is none, or the server is not to be asked now. The lock is
// held.
func (m *Manager) take() *entry {
	now := time.Now()
	m.promote(now)
	if !m.mu.outage.admits(m.mu.busy, now) {
		return nil
	}
	t := m.mu.queue.pop(now)
	if t == nil {
		return nil
	}
	e := t.entry
	m.mu.delays.remove(&e.wait)
	e.busy, e.again, e.holdUntil = true, false, time.Time{}
	m.mu.busy++
	return e
}

// promote moves what has waited long enough to the queue. The lock is held.
func (m *Manager) promote(now time.Time) {
	for w := m.mu.delays.pop(now); w != nil; w = m.mu.delays.pop(now) {
		m.schedule(w.entry)
	}
}

// schedule puts an entry where it is written as soon as it may be. The lock is held.
func (m *Manager) schedule(e *entry) {
	switch {
	case m.options.Patcher == nil, e.removed, e.status == nil:
		return
	case e.busy:
		e.again = true
		return
	}
	now, due := time.Now(), e.notUntil
	if e.holdUntil.After(due) {
		due = e.holdUntil
	}
	if due.After(now) && !e.ticket.queued {
		m.mu.delays.set(&e.wait, due)
	} else {
		m.mu.delays.remove(&e.wait)
		m.mu.queue.push(&e.ticket, e.class(), now)
	}
	m.kick()
}

// kick has the loop look.
func (m *Manager) kick() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// SyncBatch writes what is due now, one pod after the other, the most urgent first, and returns how many pods it dealt
// with. It is what Run does with many at a time; a simulation may call it instead.
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

// Resync looks at every pod for what no event told: see Options.ResyncInterval. Run calls it.
func (m *Manager) Resync() {
	for _, uid := range m.uids() {
		m.mu.Lock()
		e := m.mu.entries[uid]
		m.mu.Unlock()
		if e == nil {
			continue
		}
		if news := m.lookUp(e); m.worthAnotherLook(e, news) {
			m.reconsider(e)
		}
	}
}

// worthAnotherLook reports whether something may have changed for e by itself.
func (m *Manager) worthAnotherLook(e *entry, news bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.remote.gone && m.options.Pods == nil && !e.remote.deleted && // perhaps it is back, or never was gone
		time.Since(e.remote.goneSince) >= goneResyncs*m.options.ResyncInterval {
		e.remote.gone, e.remote.status = false, nil
		return true
	}
	return news || e.dirty() || e.held || e.finished
}
