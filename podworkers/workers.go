// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrStopped is returned once the context of Run has ended. Nothing was recorded, and nothing more will happen.
var ErrStopped = errors.New("podworkers: stopped")

// Workers keeps one record per pod UID and calls the syncer so that each pod goes through its life in order. All
// methods are safe for concurrent use.
type Workers struct {
	syncer  PodSyncer
	orphans OrphanSyncer // nil if the syncer is none
	retry   retryPolicy
	options Options

	// stopped is closed when the context of Run has ended.
	stopped chan struct{}
	// pending counts the goroutines of calls and the timers that are armed, so that Run can wait for both.
	pending sync.WaitGroup

	mu struct {
		sync.Mutex
		life    life
		entries map[types.UID]*entry
		keys    keyQueues
		// unknown holds the Terminated channels of UIDs without a record, until the first SyncKnownPods.
		unknown map[types.UID]chan struct{}
		// synced: SyncKnownPods has been called, so an unknown UID is known to be gone.
		synced bool
		// arrivals counts the entries ever made.
		arrivals uint64
		// drive does the calls of one entry in the context of Run; nil unless running.
		drive func(*entry)
	}
}

// life is where a Workers stands.
type life uint8

const (
	lifeNew life = iota
	lifeRunning
	lifeStopped
)

// entry is a record with what the shell needs to act on it. All of it is guarded by Workers.mu.
type entry struct {
	record
	// arrival orders entries by when they were made.
	arrival uint64
	// done is closed when the record is terminated or forgotten; nil until somebody asks, and after that.
	done chan struct{}
	// timer calls Workers.wake; nil until first needed.
	timer *time.Timer
	// cancel ends the context of the call in flight; nil if there is none.
	cancel context.CancelCauseFunc
	// driven: a goroutine owns the calls of this entry.
	driven bool
	// armed: the timer is counted in Workers.pending.
	armed bool
	// forgotten: the entry has left Workers.mu.entries.
	forgotten bool
}

// New returns Workers that record updates, and act on them once Run is called. The error names the field of o that
// cannot be used.
func New(o Options) (*Workers, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Workers{
		syncer:  o.Syncer,
		retry:   retryPolicy{resync: o.ResyncInterval, backoff: o.Backoff, transient: o.TransientBackoff},
		options: o,
		stopped: make(chan struct{}),
	}
	w.orphans, _ = o.Syncer.(OrphanSyncer)
	w.mu.entries = map[types.UID]*entry{}
	w.mu.keys = keyQueues{}
	w.mu.unknown = map[types.UID]chan struct{}{}
	return w, nil
}

// UpdatePod tells the worker of a pod what changed; a UID that is unknown gets a record. It never blocks: the call of
// the syncer that follows runs in a goroutine of its own, as soon as the one in flight for that UID has returned.
// Several updates before that become one (see Update). Before Run they are only recorded.
//
// An update never takes back a termination. On a UID that is ending, an UpdateCreate only sets
// WorkerInfo.RestartRequested; on one that is finished, every other update is ignored, except that it may still mark
// the pod as deleted or evicted. An Orphan whose containers are known to have ended is ignored.
//
// Errors: one that wraps ErrInvalidUpdate, or ErrStopped.
func (w *Workers) UpdatePod(u Update) error {
	_, err := w.update(u)
	return err
}

// KillPod ends a pod and waits until its last container has ended, that is until Terminated(pod.UID) closes. It
// returns at once for a pod that is terminated or has never started. If ctx ends first, its cause is returned and
// the pod goes on ending; if the context of Run ends first, ErrStopped. Like any update it may be the first that is
// heard of a pod; the containers it may have are then stopped.
//
// The kubelet gives up after 1.5 times the grace period, but not before 10 s; here the caller's ctx decides.
func (w *Workers) KillPod(ctx context.Context, pod *v1.Pod, o KillOptions) error {
	e, err := w.update(Update{Type: UpdateKill, Pod: pod, Kill: &o})
	if err != nil {
		return err
	}
	w.mu.Lock()
	done := e.doneChannel()
	w.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-w.stopped:
		err = ErrStopped
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	select {
	case <-done: // Both at once: what is proven counts.
		return nil
	default:
		return fmt.Errorf("killing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
}

// Terminated returns a channel that closes when no container of the pod runs any more, or the UID is forgotten. For
// an unknown UID it is closed already, unless SyncKnownPods has not been called yet: then it closes in the first
// such call if the UID is still unknown. When Run ends, open channels stay open, because nothing is proven.
//
// A UID that is forgotten and added again has a new channel.
func (w *Workers) Terminated(uid types.UID) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := w.mu.entries[uid]; ok {
		return e.doneChannel()
	}
	if w.mu.synced {
		return closedChannel()
	}
	done, ok := w.mu.unknown[uid]
	if !ok {
		done = make(chan struct{})
		w.mu.unknown[uid] = done
	}
	return done
}

// SyncKnownPods tells which pods are configured and returns what is known of each. Call it regularly, and only when
// every source of configuration has spoken; the first call also ends the time in which an unknown UID might exist.
//
//   - A pod that is not desired is terminated, and its SyncPod call, if any, cancelled.
//   - A finished pod that is not desired, or was asked to restart, is forgotten and not in the result.
//   - A pod that is not desired and still waits for its exclusive key is forgotten without a call.
//
// So a desired pod that is missing from the result should be added, after admission, with an UpdateCreate. The map is
// the caller's.
func (w *Workers) SyncKnownPods(desired []*v1.Pod) map[types.UID]WorkerInfo {
	uids := make(map[types.UID]struct{}, len(desired))
	for _, pod := range desired {
		if pod != nil {
			uids[pod.UID] = struct{}{}
		}
	}
	left, interrupts := w.syncKnown(uids)
	for _, interrupt := range interrupts {
		interrupt()
	}
	known := make(map[types.UID]WorkerInfo, len(left))
	for _, e := range left {
		known[e.uid] = e.info
	}
	return known
}

// syncKnown is SyncKnownPods under the lock: it returns what is left and the calls to be cancelled.
func (w *Workers) syncKnown(desired map[types.UID]struct{}) (left []snapshotEntry, interrupts []func()) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.synced = true
	left = make([]snapshotEntry, 0, len(w.mu.entries))
	for uid, e := range w.mu.entries {
		_, ok := desired[uid]
		fate, cause := e.known(ok, now)
		if fate == fateForget {
			w.forget(e)
			continue
		}
		if cause != nil {
			interrupts = append(interrupts, e.interrupter(cause))
		}
		w.react(e)
		left = append(left, w.snapshotOf(e))
	}
	for uid, done := range w.mu.unknown {
		close(done)
		delete(w.mu.unknown, uid)
	}
	return left, interrupts
}

// update validates and applies u, cancels the call in flight if it has become pointless, and returns the entry.
func (w *Workers) update(u Update) (*entry, error) {
	support := orphansUnsupported
	if w.orphans != nil {
		support = orphansSupported
	}
	if err := u.validate(support); err != nil {
		return nil, err
	}
	now := time.Now()
	e, interrupt, err := w.apply(u, now, nil)
	if e == nil && err == nil {
		// First seen: ask the caller's functions, without the lock, and try again with the answers.
		e, interrupt, err = w.apply(u, now, w.firstSight(u))
	}
	if interrupt != nil {
		interrupt()
	}
	return e, err
}

// sight is what the caller's functions say of a pod that is first seen.
type sight struct {
	key     string
	stopped bool
}

func (w *Workers) firstSight(u Update) *sight {
	s := &sight{}
	if u.Pod == nil {
		return s
	}
	if key, ok := w.options.ExclusiveKey(u.Pod); ok {
		s.key = key
	}
	s.stopped = isTerminal(u.Pod) && w.options.AlreadyStopped != nil && w.options.AlreadyStopped(u.Pod.UID)
	return s
}

// apply folds u into its entry. If there is none it is made from first, and without first nothing is done and no
// entry returned.
func (w *Workers) apply(u Update, now time.Time, first *sight) (*entry, func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.life == lifeStopped {
		return nil, nil, ErrStopped
	}
	e, ok := w.mu.entries[u.uid()]
	if !ok && u.Orphan != nil {
		first = &sight{} // Nothing to ask about.
	}
	if !ok && first == nil {
		return nil, nil, nil
	}
	var interrupt func()
	if !ok {
		e = w.add(u, *first, now)
	} else if cause := e.apply(u, now); cause != nil {
		interrupt = e.interrupter(cause)
	}
	w.react(e)
	return e, interrupt, nil
}

// add makes the entry of a UID first seen with u.
func (w *Workers) add(u Update, first sight, now time.Time) *entry {
	e := &entry{record: newRecord(u, first.key, now), arrival: w.mu.arrivals}
	w.mu.arrivals++
	w.mu.entries[e.uid] = e
	if done, ok := w.mu.unknown[e.uid]; ok {
		e.done = done
		delete(w.mu.unknown, e.uid)
	}
	switch {
	case first.stopped:
		e.move(eventSkipped, now)
	case u.Orphan != nil:
	case e.key == "" || w.mu.keys.join(e.key, e.uid):
		e.move(eventStart, now)
	}
	e.absorb(u, now)
	return e
}

// react does what a change of e's record calls for: it tells those who wait for its end, passes its exclusive key on,
// and begins the call that is due. The lock is held.
func (w *Workers) react(e *entry) {
	if e.phase >= phaseTerminated {
		e.closeDone()
	}
	if e.phase == phaseFinished || e.phase > phaseSyncing && e.startedAt.IsZero() {
		w.leaveKey(e)
	}
	w.dispatch(e)
}

// forget drops e. The lock is held. Invariant: only an entry without a planned call is forgotten, so no timer is armed.
func (w *Workers) forget(e *entry) {
	e.forgotten = true
	delete(w.mu.entries, e.uid)
	e.closeDone()
	w.leaveKey(e)
}

// leaveKey gives up e's exclusive key, or its place in the queue, and starts the pod that gets the key. The lock is
// held.
func (w *Workers) leaveKey(e *entry) {
	if e.key == "" {
		return
	}
	if next, ok := w.mu.keys.leave(e.key, e.uid); ok {
		heir := w.mu.entries[next]
		heir.move(eventStart, time.Now())
		w.dispatch(heir)
	}
}

// doneChannel returns a channel that closes when e is terminated or forgotten. The lock is held.
func (e *entry) doneChannel() <-chan struct{} {
	if e.phase >= phaseTerminated || e.forgotten {
		return closedChannel()
	}
	if e.done == nil {
		e.done = make(chan struct{})
	}
	return e.done
}

// closeDone tells everybody who holds a channel of e. The lock is held.
func (e *entry) closeDone() {
	if e.done != nil {
		close(e.done)
		e.done = nil
	}
}

// interrupter returns a func that cancels the call in flight, to be called without the lock. The lock is held.
func (e *entry) interrupter(cause error) func() {
	cancel := e.cancel
	if cancel == nil {
		return func() {}
	}
	return func() { cancel(cause) }
}

// closedChannel returns a new one each time: a shared one could not be used inside and outside a synctest bubble.
func closedChannel() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
