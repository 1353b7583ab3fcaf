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

	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// ErrStopped is returned once the context of Run has ended. Nothing was recorded, and nothing more
// will happen.
var ErrStopped = errors.New("podworkers: stopped")

// Workers keeps one record per pod UID and calls the syncer in the order of the pod's life cycle.
// All methods are safe for concurrent use.
type Workers struct {
	syncer  PodSyncer
	orphans OrphanSyncer // nil if the syncer is not an OrphanSyncer
	forgets Forgetter    // nil if the syncer is not a Forgetter
	options Options

	// stopped is closed when the context of Run has ended. synced is the channel of Synced.
	stopped, synced chan struct{}
	// pending counts the goroutines of calls and the armed timers, so that Run can wait for both.
	pending sync.WaitGroup

	mu struct {
		sync.Mutex
		life    lifecycle.Stage
		entries map[types.UID]*entry
		keys    keyQueues
		// unknown holds the Terminated channels of UIDs without a record, until synced.
		unknown map[types.UID]chan struct{}
		// synced: the channel synced is closed.
		synced bool
		// arrivals counts the entries ever made, rounds the calls of syncKnown.
		arrivals, rounds uint64
		// desired are the pods of the last SetPods call; nil before the first call and after
		// StopAll.
		desired map[types.UID]*v1.Pod
		// leaving counts, by UID, the forgotten records for which Forgetter.Forgotten has not
		// returned; left are the UIDs for which Forgotten has not been called.
		leaving map[types.UID]int
		left    []types.UID
		// drive makes the calls of one entry in the context of Run; nil unless running.
		drive func(*entry)
	}
}

// entry is a record with the channels, timer and flags of Workers. All fields are guarded by
// Workers.mu.
type entry struct {
	record
	// arrival is the sequence number of the entry. round is the last call of syncKnown for which the
	// entry was desired.
	arrival, round uint64
	// done is closed when the record is terminated or forgotten; nil before the first doneChannel
	// call and after closing.
	done chan struct{}
	// finished is closed when the record is finished or forgotten; nil before the first
	// finishedChannel call and after closing.
	finished chan struct{}
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

// New returns Workers that record updates until Run is called, and act on updates from then on. The
// error names the invalid field of o.
func New(o Options) (*Workers, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Workers{
		syncer:  o.Syncer,
		options: o,
		stopped: make(chan struct{}), synced: make(chan struct{}),
	}
	w.orphans, _ = o.Syncer.(OrphanSyncer)
	w.forgets, _ = o.Syncer.(Forgetter)
	w.mu.entries = map[types.UID]*entry{}
	w.mu.keys = keyQueues{}
	w.mu.unknown = map[types.UID]chan struct{}{}
	w.mu.leaving = map[types.UID]int{}
	return w, nil
}

// UpdatePod records a change of a pod. An unknown UID gets a record. UpdatePod never blocks. The
// syncer call runs in a goroutine, as soon as the call in flight for the same UID has returned.
// Several updates before the call are merged (see Update). Before Run, updates are only recorded.
//
// An update never takes back a termination. For an ending UID, an UpdateCreate only sets
// WorkerInfo.RestartRequested. For a finished UID, every other update is ignored, but may still
// mark the pod as deleted or evicted. An Orphan whose containers have ended is ignored.
//
// Errors: ErrStopped, or an error that wraps ErrInvalidUpdate.
func (w *Workers) UpdatePod(u Update) error {
	_, err := w.update(u)
	return err
}

// Sync requests a sync of a pod by UID and reports whether the UID has a record. Sync is UpdatePod
// with UpdateSync for a hint from the container runtime or a probe. Nothing is recorded for a
// finished UID or a UID without a record.
func (w *Workers) Sync(uid types.UID) (known bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.mu.entries[uid]
	if !ok || w.mu.life == lifecycle.Stopped {
		return false
	}
	e.remind(now)
	w.dispatch(e)
	return true
}

// Synced returns a channel that closes when UIDs without a record count as gone: at the first
// SyncKnownPods, or the first SetPods with complete set.
func (w *Workers) Synced() <-chan struct{} { return w.synced }

// KillPod ends a pod and waits until its last container has ended: until Terminated(pod.UID)
// closes. For a terminated pod KillPod returns at once. If ctx ends first, KillPod
// returns the cause of ctx, and the pod continues to end. If the context of Run ends first, KillPod
// returns ErrStopped. KillPod may be the first update of a pod; containers of the pod are then
// stopped.
//
// The kubelet gives up after 1.5 times the grace period, but not before 10 s; here the caller's ctx
// decides.
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
	case <-done: // Both happened at once: the proven end counts.
		return nil
	default:
		return fmt.Errorf("killing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
}

// Terminated returns a channel that closes when no container of the pod runs any more, or the UID
// is forgotten. The channel of a UID without a record closes together with Synced, unless the UID
// has a record by then; after Synced, the channel is already closed. When Run ends, open channels
// stay open, because nothing is proven.
//
// A UID added again after being forgotten has a new channel.
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

// update validates and applies u, cancels a call in flight that has become pointless, and returns
// the entry.
func (w *Workers) update(u Update) (*entry, error) {
	if err := w.validate(u); err != nil {
		return nil, err
	}
	now := time.Now()
	w.mu.Lock()
	e, interrupt, err := w.apply(u, now)
	w.mu.Unlock()
	if interrupt != nil {
		interrupt()
	}
	return e, err
}

// validate returns an error that wraps ErrInvalidUpdate if u is invalid, or if the syncer cannot do u.
func (w *Workers) validate(u Update) error {
	if err := u.validate(); err != nil {
		return err
	}
	if u.Orphan != nil && w.orphans == nil {
		return fmt.Errorf("%w: orphan %s, and the syncer is no OrphanSyncer", ErrInvalidUpdate, u.uid())
	}
	return nil
}

// apply applies u to the entry of the pod, and creates a missing entry. The lock is held.
func (w *Workers) apply(u Update, now time.Time) (*entry, func(), error) {
	if w.mu.life == lifecycle.Stopped {
		return nil, nil, ErrStopped
	}
	var interrupt func()
	e, ok := w.mu.entries[u.uid()]
	if !ok {
		e = w.add(u, now)
	} else if cause := e.apply(u, now); cause != nil {
		interrupt = e.interrupter(cause)
	}
	w.react(e)
	return e, interrupt, nil
}

// add makes the entry of a UID first seen with u. The lock is held.
func (w *Workers) add(u Update, now time.Time) *entry {
	e := &entry{record: newRecord(u, now), arrival: w.mu.arrivals}
	w.mu.arrivals++
	w.mu.entries[e.uid] = e
	e.done = w.mu.unknown[e.uid]
	delete(w.mu.unknown, e.uid)
	if u.Orphan == nil && (e.key == "" || w.mu.keys.join(e.key, e.uid)) {
		e.move(eventStart, now)
	}
	e.absorb(u, now)
	return e
}

// react handles a change of e's record: it closes the channels of waiting callers, passes the
// exclusive key on, and starts the due call. The lock is held.
func (w *Workers) react(e *entry) {
	if e.phase >= phaseTerminated {
		closeIfOpen(&e.done)
	}
	if e.phase == phaseFinished {
		closeIfOpen(&e.finished)
	}
	if e.phase == phaseFinished || e.phase > phaseSyncing && e.startedAt.IsZero() {
		w.leaveKey(e)
	}
	w.dispatch(e)
}

// leaveKey gives up e's exclusive key, or its place in the queue, and starts the next holder of the
// key. The lock is held.
func (w *Workers) leaveKey(e *entry) {
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

// closeIfOpen closes the channel, and sets it to nil. A nil channel stays.
func closeIfOpen(c *chan struct{}) {
	if *c != nil {
		close(*c)
		*c = nil
	}
}

// interrupter returns a func that cancels the call in flight, to be called without the lock. The
// lock is held.
func (e *entry) interrupter(cause error) func() {
	cancel := e.cancel
	return func() { cancel(cause) }
}

// finishedChannel returns a channel that closes when e is finished or forgotten. e is neither yet.
// The lock is held.
func (e *entry) finishedChannel() <-chan struct{} {
	if e.finished == nil {
		e.finished = make(chan struct{})
	}
	return e.finished
}

// closedChannel returns a new channel each time, because a channel cannot be shared between the
// inside and the outside of a synctest bubble.
func closedChannel() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
