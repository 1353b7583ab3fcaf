// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/runtime/fake"
)

// errCrashed is the error of every call of a crashed agent. The agent's reaction has no effect.
var errCrashed = errors.New("nodetest: this agent has crashed")

// lease is an agent's access to its environment: the runtime, the API server, volumes, sources, and
// the receivers of statuses and events. A lease can be revoked, as the closest equivalent of kill
// -9 within a process: the agent's goroutines live on until their contexts end, but without any
// effect.
type lease struct {
	gone chan struct{} // closed when the lease is revoked

	mu struct {
		sync.Mutex
		dead   bool
		thaw   chan struct{} // not nil while the agent is suspended; closed when the agent continues
		trap   *trap
		taken  *trap // the trap whose call is in progress
		nextID int
		calls  map[int]context.CancelFunc // of the calls in progress
	}
	calls sync.WaitGroup // in progress in the world, including calls of a crashed agent
}

// trap revokes a lease at a certain call.
type trap struct {
	on     fake.Target
	left   int  // number of matching calls until the crash, including the last
	done   bool // the call takes effect before the crash
	off    bool // disarmed while the call was in progress
	sprung chan struct{}
}

// abandoned is the maximum duration of a call after the crash of its agent.
const abandoned = time.Minute

// callPatience is the deadline of a call to the runtime, as in package runtime/cri: with deadlines,
// no call to a backend hangs for ever.
const callPatience = 2 * time.Minute

// patienceOf returns the deadline of a call. 0: the context or the caller limits the call.
func patienceOf(op fake.Op) time.Duration {
	switch op {
	case fake.OpRunSandbox:
		return 2 * callPatience
	case fake.OpStopContainer, fake.OpExec, OpSetUp, OpTearDown, OpGetPod, OpPatchStatus, OpDeletePod, OpPullImage:
		return 0
	}
	return callPatience
}

func newLease() *lease {
	l := &lease{gone: make(chan struct{})}
	l.mu.calls = make(map[int]context.CancelFunc)
	return l
}

// revoke ends the agent's access. For each call in progress, chance decides whether the call still
// takes effect. With a nil chance no call does.
func (l *lease) revoke(chance *rand.Rand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.die()
	for id := range l.mu.nextID {
		cancel, ok := l.mu.calls[id]
		switch {
		case !ok:
		case chance == nil || chance.IntN(2) == 0:
			cancel()
		default:
			time.AfterFunc(abandoned, cancel)
		}
	}
}

// die is called with the lock held.
func (l *lease) die() {
	if !l.mu.dead {
		l.mu.dead = true
		close(l.gone)
	}
}

func (l *lease) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.dead
}

// suspend delays calls, and the returns of calls, until resume.
func (l *lease) suspend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.thaw == nil {
		l.mu.thaw = make(chan struct{})
	}
}

func (l *lease) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.thaw != nil {
		close(l.mu.thaw)
		l.mu.thaw = nil
	}
}

// set arms a trap in place of an earlier trap. nil disarms.
func (l *lease) set(t *trap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.trap = t; l.mu.taken != nil {
		l.mu.taken.off = true
	}
}

// pass waits while the agent is suspended. It fails if the agent has crashed or ctx has ended.
func (l *lease) pass(ctx context.Context) error {
	for {
		l.mu.Lock()
		dead, thaw := l.mu.dead, l.mu.thaw
		l.mu.Unlock()
		switch {
		case dead:
			return errCrashed
		case thaw == nil:
			return nil
		}
		select {
		case <-thaw:
		case <-l.gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// springs returns the trap that this call triggers, or nil.
func (l *lease) springs(call fake.Call) *trap {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.mu.trap
	if t == nil || !matches(t.on, call) {
		return nil
	}
	if t.left--; t.left > 0 {
		return nil
	}
	l.mu.trap, l.mu.taken = nil, t
	return t
}

func matches(on fake.Target, c fake.Call) bool {
	return (on.Op == "" || on.Op == c.Op) && (on.UID == "" || on.UID == c.UID) &&
		(on.Pod == "" || on.Pod == c.Pod) && (on.Container == "" || on.Container == c.Container)
}

func (l *lease) sprung(t *trap) {
	l.mu.Lock()
	off := t.off
	if !off {
		l.die()
	}
	l.mu.Unlock()
	if !off {
		close(t.sprung)
	}
}

// enter records the begin of a call. The caller calls leave at its end.
func (l *lease) enter(cancel context.CancelFunc) (id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id = l.mu.nextID
	l.mu.nextID++
	l.mu.calls[id] = cancel
	l.calls.Add(1)
	return id
}

func (l *lease) leave(id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.calls, id)
	l.calls.Done()
}

// through makes a call for the agent that holds l. With the end of the lease the agent's wait ends.
// The call itself may continue.
func through[T any](ctx context.Context, l *lease, call fake.Call, do func(context.Context) (T, error)) (T, error) {
	var none T
	if err := l.pass(ctx); err != nil {
		return none, err
	}
	t := l.springs(call)
	if t != nil && !t.done {
		l.sprung(t)
		return none, errCrashed
	}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if !l.isDead() {
			cancel(context.Cause(ctx))
		}
	})
	if patience := patienceOf(call.Op); patience > 0 {
		defer time.AfterFunc(patience, func() { cancel(context.DeadlineExceeded) }).Stop()
	}
	type outcome struct {
		value T
		err   error
	}
	ended := make(chan outcome, 1)
	id := l.enter(func() { cancel(errCrashed) })
	go func() {
		defer l.leave(id)
		defer cancel(nil)
		defer stop()
		value, err := do(inner)
		if t != nil {
			l.sprung(t)
		}
		ended <- outcome{value, err}
	}()
	select {
	case <-l.gone:
		return none, errCrashed
	case out := <-ended:
		if err := l.pass(ctx); err != nil {
			return none, err
		}
		return out.value, out.err
	}
}
