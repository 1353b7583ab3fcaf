// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"
)

// ErrRunning says that Run was called twice.
var ErrRunning = errors.New("already running or ended")

// TrackerOptions configure a Tracker.
type TrackerOptions struct {
	// Runtime is asked, and watched if it is a Watcher. Required.
	Runtime Runtime
	// RelistInterval is how long after one listing the next begins. Defaults to
	// 1 min for a Watcher, where it is only a safety net. Else it follows what a
	// listing costs: 200 times as long as the last one took, but at least 200 ms
	// and at most 1 s, so that listing takes about half a percent of the time.
	RelistInterval time.Duration
	// UnhealthyAfter is how long no listing may have succeeded before Health is
	// an error. Defaults to 3 min, at least twice RelistInterval.
	UnhealthyAfter time.Duration
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
	rt       Runtime
	interval time.Duration
	patience time.Duration
	log      *zap.Logger
	signal   chan struct{} // capacity 1: the dirty set is not empty
	again    chan struct{} // capacity 1: it works again

	mu struct {
		sync.Mutex
		dirty    []types.UID // in the order in which they became dirty
		isDirty  map[types.UID]bool
		seen     map[types.UID][]instanceState // as of the last listing
		pods     []*PodStatus                  // the last listing
		listedAt time.Time
		began    time.Time // of Run
		lastErr  error     // of the last listing
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
	switch {
	case opts.Runtime == nil:
		return nil, errors.New("runtime: TrackerOptions.Runtime is required")
	case opts.RelistInterval < 0:
		return nil, fmt.Errorf("runtime: TrackerOptions.RelistInterval is %s: want 0 or more", opts.RelistInterval)
	case opts.UnhealthyAfter < 0:
		return nil, fmt.Errorf("runtime: TrackerOptions.UnhealthyAfter is %s: want 0 or more", opts.UnhealthyAfter)
	}
	t := &Tracker{
		rt: opts.Runtime, interval: opts.RelistInterval, patience: opts.UnhealthyAfter, log: opts.Logger,
		signal: make(chan struct{}, 1), again: make(chan struct{}, 1),
	}
	if _, ok := opts.Runtime.(Watcher); ok && t.interval == 0 {
		t.interval = time.Minute
	}
	if t.patience == 0 {
		t.patience = max(3*time.Minute, 2*t.interval)
	}
	if t.log == nil {
		t.log = zap.NewNop()
	}
	t.mu.isDirty = make(map[types.UID]bool)
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
	if !ran {
		t.mu.began = time.Now()
	}
	t.mu.Unlock()
	if ran {
		return fmt.Errorf("runtime: Tracker.Run: %w", ErrRunning)
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
		if !sleep(ctx, delay) {
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
			t.Mark(uid)
		}
		if time.Since(began) > maxRetry {
			delay = minRetry
		}
		if !sleep(ctx, delay) {
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
		t.mu.Lock()
		t.mu.lastErr = err
		t.mu.Unlock()
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
			t.mark(p.UID)
		}
	}
	for _, p := range t.mu.pods {
		if _, ok := seen[p.UID]; !ok {
			t.mark(p.UID)
		}
	}
	t.mu.seen, t.mu.pods, t.mu.listedAt, t.mu.lastErr = seen, pods, at, nil
	return nil
}

// ErrRuntimeDown says that the runtime has not listed its pods for too long.
var ErrRuntimeDown = errors.New("the container runtime is down")

// Health is nil while the runtime answers: while the last listing that succeeded
// began less than UnhealthyAfter ago, or Run did. Else it wraps ErrRuntimeDown
// and the last error. It is a value to be read; the tracker itself goes on.
func (t *Tracker) Health() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.mu.listedAt
	if t.mu.began.After(last) {
		last = t.mu.began
	}
	silent := time.Since(last)
	switch {
	case last.IsZero() || silent < t.patience:
		return nil
	case t.mu.lastErr != nil:
		return fmt.Errorf("%w: no listing for %s: %w", ErrRuntimeDown, silent.Round(time.Second), t.mu.lastErr)
	}
	return fmt.Errorf("%w: a listing does not return for %s", ErrRuntimeDown, silent.Round(time.Second))
}

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

// Mark makes a pod dirty.
func (t *Tracker) Mark(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mark(uid)
}

func (t *Tracker) mark(uid types.UID) {
	if t.mu.isDirty[uid] {
		return
	}
	t.mu.isDirty[uid] = true
	t.mu.dirty = append(t.mu.dirty, uid)
	select {
	case t.signal <- struct{}{}:
	default:
	}
}

// Dirty receives a value when Take has something to return.
func (t *Tracker) Dirty() <-chan struct{} { return t.signal }

// Recovered receives a value when the runtime lists pods or tells of them again
// after that failed: what else failed meanwhile is worth another try now. It may
// be ignored.
func (t *Tracker) Recovered() <-chan struct{} { return t.again }

func (t *Tracker) recovered() {
	select {
	case t.again <- struct{}{}:
	default:
	}
}

// Take returns the dirty pods, first marked first, and makes them clean.
func (t *Tracker) Take() []types.UID {
	t.mu.Lock()
	defer t.mu.Unlock()
	uids := t.mu.dirty
	t.mu.dirty = nil
	clear(t.mu.isDirty)
	return uids
}

// Pods returns the last listing and when it began; the zero time if there was
// none yet. The statuses are shared and must not be written.
func (t *Tracker) Pods() (pods []*PodStatus, listedAt time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.mu.pods), t.mu.listedAt
}

// sleep waits for d; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
