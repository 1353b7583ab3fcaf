// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// course is the history of one UID, as seen by the chaos syncer, since the UID was last forgotten.
type course struct {
	calls    int // ever; seeds the behaviour of the next call
	life     int // how often the UID was forgotten
	inFlight callKind
	stage    callKind // the furthest method called
	done     callKind // the furthest method that ended for good
	grace    int64    // of the last terminating call; 0 = none yet
	version  string   // of the last pod delivered
}

// chaos is a syncer with random durations and results that records every illegal call.
type chaos struct {
	seed    uint64
	healthy atomic.Bool // from now on everything succeeds at once
	ended   atomic.Bool // Run has returned
	// touched is written first and last in each call, without a lock: rule 1 makes a lock unnecessary, and the race
	// detector checks the rule.
	touched map[types.UID]*int

	mu         sync.Mutex
	courses    map[types.UID]*course
	violations []string
}

func newChaos(seed uint64, uids []types.UID) *chaos {
	c := &chaos{seed: seed, courses: map[types.UID]*course{}, touched: map[types.UID]*int{}}
	for _, uid := range uids {
		c.courses[uid], c.touched[uid] = &course{}, new(int)
	}
	return c
}

// blame notes a broken rule.
func (c *chaos) blame(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// blamed returns the broken rules so far.
func (c *chaos) blamed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.violations
}

// look returns the course of a UID.
func (c *chaos) look(uid types.UID) course {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.courses[uid]
}

// forgotten begins the UID's course anew.
func (c *chaos) forgotten(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.courses[uid]
	*s = course{calls: s.calls, life: s.life + 1}
}

func (c *chaos) SyncPod(ctx context.Context, r SyncRequest) (Outcome, error) {
	over, err := c.call(ctx, r.Pod.UID, callSyncPod, 0, r.Pod.ResourceVersion)
	return Outcome{Over: over, Again: c.again(r)}, err
}

func (c *chaos) SyncTerminatingPod(ctx context.Context, r TerminatingRequest) error {
	_, err := c.call(ctx, r.Pod.UID, callTerminatingPod, r.GracePeriodSeconds, r.Pod.ResourceVersion)
	return err
}

func (c *chaos) SyncTerminatingOrphan(ctx context.Context, o Orphan, grace int64) error {
	_, err := c.call(ctx, o.UID, callTerminatingOrphan, grace, "")
	if err == nil {
		c.forgotten(o.UID)
	}
	return err
}

func (c *chaos) SyncTerminatedPod(ctx context.Context, r SyncRequest) error {
	_, err := c.call(ctx, r.Pod.UID, callTerminatedPod, 0, r.Pod.ResourceVersion)
	return err
}

// again returns a random time for the next call, sometimes in the past.
func (c *chaos) again(r SyncRequest) time.Time {
	rng := rand.New(rand.NewPCG(c.seed, uint64(c.look(r.Pod.UID).calls)))
	if c.healthy.Load() || rng.IntN(3) > 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(rng.IntN(100)-2) * time.Second)
}

// call behaves at random between two looks at the rules.
func (c *chaos) call(ctx context.Context, uid types.UID, kind callKind, grace int64, version string) (bool, error) {
	*c.touched[uid]++
	rng := c.begin(uid, kind, grace, version)
	err := c.behave(ctx, rng)
	terminal := kind == callSyncPod && err == nil && !c.healthy.Load() && rng.IntN(8) == 0
	c.mu.Lock()
	s := c.courses[uid]
	s.inFlight = callNone
	switch {
	case err != nil || kind == callSyncPod && !terminal:
	case kind == callTerminatingPod:
		s.done = callTerminatingOrphan // Neither of the two again.
	default:
		s.done = kind
	}
	c.mu.Unlock()
	*c.touched[uid]++
	return terminal, err
}

// begin checks rules 1, 2, 4 and 13.
func (c *chaos) begin(uid types.UID, kind callKind, grace int64, version string) *rand.Rand {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.courses[uid]
	blame := func(format string, args ...any) {
		c.violations = append(c.violations, fmt.Sprintf("%s: %s ", uid, kind)+fmt.Sprintf(format, args...))
	}
	if c.ended.Load() {
		blame("after Run returned")
	}
	if s.inFlight != callNone {
		blame("during %s", s.inFlight)
	}
	if kind < s.stage || kind <= s.done {
		blame("after %s was called and %s done", s.stage, s.done)
	}
	if kind == callTerminatedPod && s.stage > callNone && s.stage < callTerminatedPod && s.done < callTerminatingPod {
		blame("after %s, and nothing has stopped it", s.stage)
	}
	if kind == callTerminatingPod || kind == callTerminatingOrphan {
		if grace < 1 || s.grace != 0 && grace > s.grace {
			blame("with grace period %d after %d", grace, s.grace)
		}
		s.grace = grace
	}
	s.stage, s.inFlight, s.version = kind, kind, version
	s.calls++
	// Whatever the order of goroutines, the n-th call of a UID behaves the same.
	return rand.New(rand.NewPCG(c.seed, uint64(s.calls)<<8|uint64(uid[0])))
}

func (c *chaos) behave(ctx context.Context, rng *rand.Rand) error {
	if c.healthy.Load() {
		return nil
	}
	takes := time.Duration(rng.IntN(4)*rng.IntN(4000)) * time.Millisecond
	if deaf := rng.IntN(4) == 0; deaf {
		time.Sleep(takes)
	} else if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch rng.IntN(8) {
	case 0:
		return errors.New("no luck")
	case 1:
		return ErrTransient
	case 2:
		return RetryAfter(errors.New("later"), time.Now().Add(time.Duration(rng.IntN(20)-2)*time.Second))
	}
	return nil
}
