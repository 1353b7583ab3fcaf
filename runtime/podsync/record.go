// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/alarm"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/runtime"
)

// record is the state of a pod between two calls. A record is dropped as a whole.
type record struct {
	uid types.UID
	// turn holds a token while a call or a removal of remains works on the pod.
	turn chan struct{}
	// changed has room for one value. The value tells a sync under way that the pod may have
	// changed.
	changed signal.Signal
	// alarm interrupts the Sync call in progress at the pod's deadline.
	alarm alarm.Alarm
	// shown is the pod with its last status, nil before the first generation in this life.
	shown atomic.Pointer[shownPod]
	// life is the phase of the pod's life.
	life atomic.Uint32
	// hinted is the time of the last hint that the pod may have changed, in Unix nanoseconds.
	hinted atomic.Int64
	// failing reports whether the last call failed.
	failing atomic.Bool
	// resting reports whether the last call has left nothing to do.
	resting atomic.Bool
	// stopped is the runtime's last status of the pod, after its containers were stopped; nil if the
	// pod may have changed since.
	stopped atomic.Pointer[runtime.PodStatus]

	progress // used with the turn only
}

// progress is the part of a record that the owner of the turn reads and writes.
type progress struct {
	// settled is the time of the last observation with nothing left to do.
	settled time.Time
	// ended is the last observation, if all containers have exited for good; nil otherwise. No
	// container of the pod starts again without a call.
	ended *runtime.PodStatus
	// starts are the recent failures to start containers.
	starts runtime.StartFailures
	// probed: the pod has or had probes.
	probed bool
	// failures counts the failed calls in a row. complaint is the error text of the last call, ""
	// after a success.
	failures  int
	complaint string
}

// shownPod is a pod with its last status.
type shownPod struct {
	pod *v1.Pod // of the last generated status
	// own is the last published status, nil while the status of the pod object is still current.
	own *v1.PodStatus
}

// status returns the last status of the pod.
func (s *shownPod) status() *v1.PodStatus {
	if s.own != nil {
		return s.own
	}
	return &s.pod.Status
}

// lastStatus returns the last published status of the pod, and the pod's own status before the first
// publication. r may be nil. The status is shared and must not be written.
func (r *record) lastStatus(pod *v1.Pod) *v1.PodStatus {
	if r != nil {
		if shown := r.shown.Load(); shown != nil && shown.own != nil {
			return shown.own
		}
	}
	return &pod.Status
}

// The phases of a pod's life, as known by the record.
const (
	// lifeNone: this agent has not worked on the pod. Remains in the runtime belong to another
	// agent and are adopted or removed.
	lifeNone uint32 = iota
	// lifeNow: the pod is being worked on.
	lifeNow
	// lifeFormer: the pod was forgotten. Remains in the runtime are removed before the UID is used
	// again.
	lifeFormer
)

// release gives the turn back.
func (r *record) release() { <-r.turn }

// hintWindow is the longest time between an observation and a skipped sync. Such a sync results
// from a hint that arrived before the observation. The window is shorter than the time between two
// periodic syncs of podworkers, so that periodic syncs read the pod.
const hintWindow = 5 * time.Second

// isSettled reports whether a sync of the pod has nothing to do: the same pod object was observed
// after the last hint, with nothing left to do. A runtime sends hints about every change that a
// sync has just made.
func (r *record) isSettled(pod *v1.Pod) bool {
	shown := r.shown.Load()
	return shown != nil && shown.pod == pod && time.Since(r.settled) < hintWindow && r.settled.UnixNano() > r.hinted.Load()
}

// conclude records the result of a call, and reports whether the complaint has changed.
func (r *record) conclude(err error) (changed bool) {
	before := r.complaint
	r.failures++
	r.complaint = ""
	if err == nil {
		r.failures = 0
	} else {
		r.complaint = err.Error()
	}
	r.failing.Store(err != nil)
	return r.complaint != before
}

// remind tells a sync under way that the pod may have changed.
func (r *record) remind() {
	r.hinted.Store(time.Now().UnixNano())
	r.stopped.Store(nil)
	r.changed.Notify()
}

// attend returns the channel of remind, emptied of earlier reminders.
func (r *record) attend() <-chan struct{} {
	select {
	case <-r.changed:
	default:
	}
	return r.changed
}

// records maps UIDs to records. Pods has no other map by UID.
type records struct {
	mu    sync.Mutex
	byUID map[types.UID]*record
}

// of returns the record of a pod, and creates a missing record.
func (t *records) of(uid types.UID) *record {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.byUID[uid]
	if !ok {
		r = &record{uid: uid, turn: make(chan struct{}, 1), changed: signal.New()}
		t.byUID[uid] = r
	}
	return r
}

// acquire waits for the turn of a pod and returns the pod's record. A missing record is created.
// The error is the cause of ctx.
func (t *records) acquire(ctx context.Context, uid types.UID) (*record, error) {
	for {
		r := t.of(uid)
		select {
		case r.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if t.find(uid) == r {
			return r, nil
		}
		r.release() // the previous owner of the turn has dropped the record
	}
}

// find returns the record of a pod, nil if the pod has no record.
func (t *records) find(uid types.UID) *record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byUID[uid]
}

// all returns the records, sorted by UID.
func (t *records) all() []*record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Values(t.byUID), func(a, b *record) int { return cmp.Compare(a.uid, b.uid) })
}

// drop removes r, whose turn the caller has, unless the UID has another record by now.
func (t *records) drop(r *record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byUID[r.uid] == r {
		delete(t.byUID, r.uid)
	}
}
