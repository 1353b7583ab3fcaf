// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/dirty"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
)

// errRunning is the error of a second call of Run.
var errRunning = errors.New("already running or ended")

// TrackerOptions configures a Tracker.
type TrackerOptions struct {
	// Runtime is listed, and watched if it implements Watcher. Required.
	Runtime Runtime
	// Logger receives failures of listing or watching, and recoveries. Defaults to none.
	Logger *zap.Logger
}

// Tracker finds pods that changed without a call. It does the job of the kubelet's PLEG. Instead of
// a queue of events, Tracker has a set of dirty pods, which cannot overflow. A pod that changes
// again before it is read is in the set once.
//
// Tracker is safe for concurrent use.
type Tracker struct {
	rt Runtime
	// interval is the time between two listings: 1 min for a Watcher, as a safety net, 10 min for a
	// CompleteWatcher, and 0 for other runtimes. 0 means 200 times the duration of the last
	// listing, at least 200 ms and at most 1 s.
	interval time.Duration
	log      *zap.Logger
	dirty    *dirty.Set
	again    signal.Signal // capacity 1: the runtime works again

	ran atomic.Bool
	mu  struct {
		sync.Mutex
		seen     map[types.UID][]instanceState // states in the last listing
		pods     []*PodStatus                  // the last listing
		listedAt time.Time
	}
}

// instanceState is compared between listings. A difference makes the pod dirty.
type instanceState struct {
	id    string
	state State
}

// NewTracker validates opts. It makes no call to the runtime.
func NewTracker(opts TrackerOptions) (*Tracker, error) {
	if opts.Runtime == nil {
		return nil, errors.New("runtime: TrackerOptions.Runtime is required")
	}
	t := &Tracker{
		rt: opts.Runtime, log: cmp.Or(opts.Logger, zap.NewNop()),
		dirty: dirty.New(), again: signal.New(),
	}
	if _, ok := opts.Runtime.(Watcher); ok {
		t.interval = Unprompted(opts.Runtime, time.Minute)
	}
	t.mu.seen = make(map[types.UID][]instanceState)
	return t, nil
}

// Run lists at once and then in every interval, and watches in between if the runtime is a Watcher.
// Run blocks until ctx ends and its goroutines have ended. It then returns nil.
func (t *Tracker) Run(ctx context.Context) error {
	if t.ran.Swap(true) {
		return fmt.Errorf("runtime: Tracker.Run: %w", errRunning)
	}
	var wg sync.WaitGroup
	if w, ok := t.rt.(Watcher); ok {
		wg.Go(func() { t.watch(ctx, w) })
	}
	t.relistForever(ctx)
	wg.Wait()
	return nil
}

func (t *Tracker) relistForever(ctx context.Context) {
	failing, pause := false, minRetry
	for delay := time.Duration(0); ; {
		if retry.Sleep(ctx, delay) != nil {
			return
		}
		began := time.Now()
		err := t.Relist(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			t.log.Error("cannot list pods from the runtime", zap.Error(err))
		case err == nil && failing:
			t.log.Info("the runtime lists pods again")
			t.again.Notify()
		}
		failing = err != nil
		if failing {
			delay, pause = pause, min(2*pause, maxRetry)
		} else {
			delay, pause = t.pace(time.Since(began)), minRetry
		}
	}
}

// pace returns the wait after a listing that lasted for took.
func (t *Tracker) pace(took time.Duration) time.Duration {
	if t.interval > 0 {
		return t.interval
	}
	return min(max(200*took, 200*time.Millisecond), time.Second)
}

// The wait before a retry of a failed listing or a broken watch doubles between these values. The
// maximum is a compromise between the load on a starting runtime and the delay after its return.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = 2 * time.Second
)

// watch follows the runtime's hints. Every watch begins with a hint for each existing pod, so no
// change between two watches is lost.
func (t *Tracker) watch(ctx context.Context, w Watcher) {
	failing, delay := false, minRetry
	for ctx.Err() == nil {
		began := time.Now()
		for uid, err := range w.Watch(ctx) {
			if err != nil {
				if !failing && ctx.Err() == nil {
					t.log.Warn("watching the runtime ended, trying again", zap.Error(err))
				}
				failing = true
				break
			}
			if failing {
				t.log.Info("the runtime is watched again")
				t.again.Notify()
			}
			failing = false
			t.dirty.Mark(uid)
		}
		if time.Since(began) > maxRetry {
			delay = minRetry
		}
		if retry.Sleep(ctx, delay) != nil {
			return
		}
		delay = min(2*delay, maxRetry)
	}
}

// Relist lists once, and marks pods with new, removed or changed sandboxes or containers since the
// last listing. After an error nothing changes.
func (t *Tracker) Relist(ctx context.Context) error {
	at := time.Now()
	pods, err := t.rt.List(ctx, ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	seen := make(map[types.UID][]instanceState, len(pods))
	for _, p := range pods {
		seen[p.UID] = instanceStates(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range pods {
		if !slices.Equal(t.mu.seen[p.UID], seen[p.UID]) {
			t.dirty.Mark(p.UID)
		}
	}
	for _, p := range t.mu.pods {
		if _, ok := seen[p.UID]; !ok && len(t.mu.seen[p.UID]) > 0 {
			t.dirty.Mark(p.UID)
		}
	}
	t.mu.seen, t.mu.pods, t.mu.listedAt = seen, pods, at
	return nil
}

// Observed reports the state of a pod that the caller has read and handled. Unless the pod changes, the
// next listing does not mark the pod as changed by the caller's own calls. A status older than a
// listing costs an extra mark, and hides no change. A status without records is that of a removed pod.
func (t *Tracker) Observed(status *PodStatus) {
	states := instanceStates(status)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.listedAt.IsZero() {
		return // the first listing marks every pod
	}
	t.mu.seen[status.UID] = states
}

// Lacks reports whether the last listing, and the calls of Observed since, have no record of a pod.
// Lacks is false before the first listing.
func (t *Tracker) Lacks(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.mu.listedAt.IsZero() && len(t.mu.seen[uid]) == 0
}

// ErrRuntimeDown: the runtime does not list its pods. The error is for the health checks of an
// agent.
var ErrRuntimeDown = errors.New("the container runtime is down")

func instanceStates(p *PodStatus) []instanceState {
	states := make([]instanceState, 0, len(p.Sandboxes)+len(p.Containers))
	for i := range p.Sandboxes {
		state := StateExited
		if p.Sandboxes[i].Ready {
			state = StateRunning
		}
		states = append(states, instanceState{string(p.Sandboxes[i].ID), state})
	}
	for i := range p.Containers {
		states = append(states, instanceState{p.Containers[i].ID.ID, p.Containers[i].State})
	}
	return states
}

// Dirty receives a value when Take has something to return.
func (t *Tracker) Dirty() <-chan struct{} { return t.dirty.Signal() }

// Recovered receives a value when the runtime can be listed or watched again after a failure. The
// caller may then retry other failed calls, or ignore the value.
func (t *Tracker) Recovered() <-chan struct{} { return t.again }

// Take returns the dirty pods in the order of their marks, and empties the set.
func (t *Tracker) Take() []types.UID { return t.dirty.Take() }

// Pods returns the last listing and the time of its begin, or the zero time before the first
// listing. The statuses are shared and must not be modified.
func (t *Tracker) Pods() (pods []*PodStatus, listedAt time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.mu.pods), t.mu.listedAt
}
