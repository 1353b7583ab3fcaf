// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/dirty"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
)

// errRunning says that Run was called twice.
var errRunning = errors.New("already running or ended")

// TrackerOptions configure a Tracker.
type TrackerOptions struct {
	// Runtime is asked, and watched if it is a Watcher. Required.
	Runtime Runtime
	// Logger tells when listing or watching fails and when it works again.
	// Defaults to none.
	Logger *zap.Logger
}

// Tracker finds out which pods changed by themselves. It does the job of the
// kubelet's PLEG, but what it hands out is a set of dirty pods, not a queue of
// events: nothing can overflow or get lost, and a pod that changes faster than
// it is looked at is simply looked at again.
//
// It is safe for concurrent use.
type Tracker struct {
	rt Runtime
	// interval is the time from one listing to the next: 1 min for a Watcher, where
	// it is only a safety net. 0: it follows what a listing costs, 200 times as long
	// as the last one took, but at least 200 ms and at most 1 s.
	interval time.Duration
	log      *zap.Logger
	dirty    *dirty.Set
	again    signal.Signal // capacity 1: it works again

	mu struct {
		sync.Mutex
		seen     map[types.UID][]instanceState // as of the last listing
		pods     []*PodStatus                  // the last listing
		listedAt time.Time
		ran      bool
	}
}

// instanceState is what has to change for a pod to be dirty after a listing.
type instanceState struct {
	id    string
	state State
}

// NewTracker validates opts. It calls nothing.
func NewTracker(opts TrackerOptions) (*Tracker, error) {
	if opts.Runtime == nil {
		return nil, errors.New("runtime: TrackerOptions.Runtime is required")
	}
	t := &Tracker{
		rt: opts.Runtime, log: opts.Logger,
		dirty: dirty.New(), again: signal.New(),
	}
	if _, ok := opts.Runtime.(Watcher); ok {
		t.interval = time.Minute
	}
	if t.log == nil {
		t.log = zap.NewNop()
	}
	t.mu.seen = make(map[types.UID][]instanceState)
	return t, nil
}

// Run lists at once and then every interval, and watches in between if the
// runtime can. It blocks until ctx ends and everything it started has ended,
// and returns nil then.
func (t *Tracker) Run(ctx context.Context) error {
	t.mu.Lock()
	ran := t.mu.ran
	t.mu.ran = true
	t.mu.Unlock()
	if ran {
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
			t.recovered()
		}
		failing = err != nil
		if failing {
			delay, pause = pause, min(2*pause, maxRetry)
		} else {
			delay, pause = t.pace(time.Since(began)), minRetry
		}
	}
}

// pace is how long to wait after a listing that took so long.
func (t *Tracker) pace(took time.Duration) time.Duration {
	if t.interval > 0 {
		return t.interval
	}
	return min(max(200*took, 200*time.Millisecond), time.Second)
}

// The pause before a listing that failed or a broken watch is tried again
// doubles between these. The longest is a compromise between the calls that a
// runtime gets that is starting, and the time until its return is noticed.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = 2 * time.Second
)

// watch follows the runtime's hints. A watch begins with a hint for every pod
// that exists, so nothing falls between two of them.
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
				t.recovered()
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

// Relist lists once and marks the pods whose sandboxes or containers changed
// state, came or went since the last listing. On an error nothing changes.
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
		if _, ok := seen[p.UID]; !ok {
			t.dirty.Mark(p.UID)
		}
	}
	t.mu.seen, t.mu.pods, t.mu.listedAt = seen, pods, at
	return nil
}

// ErrRuntimeDown says that the runtime does not list its pods. It is for the health checks of an agent.
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

// Recovered receives a value when the runtime lists pods or tells of them again
// after that failed: what else failed meanwhile is worth another try now. It may
// be ignored.
func (t *Tracker) Recovered() <-chan struct{} { return t.again }

func (t *Tracker) recovered() {
	t.again.Notify()
}

// Take returns the dirty pods, first marked first, and makes them clean.
func (t *Tracker) Take() []types.UID { return t.dirty.Take() }

// Pods returns the last listing and when it began; the zero time if there was
// none yet. The statuses are shared and must not be written.
func (t *Tracker) Pods() (pods []*PodStatus, listedAt time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.mu.pods), t.mu.listedAt
}
