// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// flight identifies a pull. Pulls with equal flights are shared.
type flight struct {
	image string
	auth  ImageAuth
}

// flights shares concurrent pulls of an image, and bounds the number of different pulls in
// progress. A pull continues while at least one caller waits for it.
type flights struct {
	slots chan struct{}

	mu struct {
		sync.Mutex
		byKey map[flight]*inFlight
	}
}

type inFlight struct {
	cancel  context.CancelFunc
	asked   time.Time
	began   time.Time // when the pull got its slot; guarded by flights.mu
	waiters int       // guarded by flights.mu
	done    chan struct{}
	id      string // id, took and err are written before done is closed
	took    time.Duration
	err     error
}

func newFlights(limit int) *flights {
	f := &flights{slots: make(chan struct{}, limit)}
	f.mu.byKey = make(map[flight]*inFlight)
	return f
}

// errNobodyWaits is the error of a pull that all callers gave up.
var errNobodyWaits = errors.New("all callers have given up the pull")

// do runs pull, or joins a pull with the same key, and waits for its end or for the end of ctx. The
// goroutine of the pull ends no later than the return of the last caller. took is the time of pull.
func (f *flights) do(ctx context.Context, key flight, pull func(context.Context) (string, error)) (id string, took time.Duration, err error) {
	p := f.board(ctx, key, pull)
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	f.mu.Lock()
	p.waiters--
	last := p.waiters == 0
	if last && f.mu.byKey[key] == p {
		delete(f.mu.byKey, key)
	}
	f.mu.Unlock()
	if last {
		p.cancel()
		<-p.done
	}
	if ctx.Err() != nil {
		return "", 0, context.Cause(ctx)
	}
	return p.id, p.took, p.err
}

func (f *flights) board(ctx context.Context, key flight, pull func(context.Context) (string, error)) *inFlight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.mu.byKey[key]; p != nil {
		p.waiters++
		return p
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &inFlight{cancel: cancel, asked: time.Now(), waiters: 1, done: make(chan struct{})}
	f.mu.byKey[key] = p
	go func() {
		defer close(p.done)
		select {
		case f.slots <- struct{}{}:
			defer func() { <-f.slots }()
			began := time.Now()
			f.mu.Lock()
			p.began = began
			f.mu.Unlock()
			p.id, p.err = pull(own)
			p.took = time.Since(began)
		case <-own.Done():
			p.err = errNobodyWaits
		}
		f.mu.Lock()
		if f.mu.byKey[key] == p {
			delete(f.mu.byKey, key) // later callers begin a new pull
		}
		f.mu.Unlock()
	}()
	return p
}

// defaultConcurrentPulls is the default of Options.MaxConcurrentPulls.
const defaultConcurrentPulls = 4

// pullBackoff has the failed pulls by pod and image. As in the kubelet, the delays between two
// pulls of an image for a pod are those of the zero Backoff. Backoff.Reset counts from the last
// failure.
type pullBackoff struct {
	mu struct {
		sync.Mutex
		byPod map[types.UID]map[string]pullFailure
	}
}

type pullFailure struct {
	at    time.Time
	delay time.Duration
	err   error
}

func newPullBackoff() *pullBackoff {
	b := &pullBackoff{}
	b.mu.byPod = make(map[types.UID]map[string]pullFailure)
	return b
}

// wait returns the time of the next try of the image, and the last error. The zero time means now.
func (b *pullBackoff) wait(uid types.UID, image string, now time.Time) (time.Time, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.mu.byPod[uid][image]
	if at := f.at.Add(f.delay); at.After(now) {
		return at, f.err
	}
	return time.Time{}, nil
}

// failed doubles the delay, unless the last failure is long ago.
func (b *pullBackoff) failed(uid types.UID, image string, err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	images := b.mu.byPod[uid]
	if images == nil {
		images = make(map[string]pullFailure)
		b.mu.byPod[uid] = images
	}
	last, ok := images[image]
	policy := Backoff{}.withDefaults()
	next := pullFailure{at: now, delay: policy.Initial, err: err}
	if ok && now.Sub(last.at) <= policy.Reset {
		next.delay = min(2*last.delay, policy.Max)
	}
	images[image] = next
}

func (b *pullBackoff) succeeded(uid types.UID, image string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.byPod[uid], image)
}

func (b *pullBackoff) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.byPod, uid)
}
