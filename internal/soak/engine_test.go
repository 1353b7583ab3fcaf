// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// engine is containerd with its faults.
type engine struct {
	c     *containerdtest.Instance
	world *world

	mu      sync.Mutex
	trouble int       // faults of containerd itself that last
	well    time.Time // since when there are none
}

// aftermath is the time after a fault of containerd in which a call in progress may still fail:
// Dial takes at most ten seconds.
const aftermath = 15 * time.Second

// telling is the maximum delay on a busy machine between the end of a process and its record in
// containerd.
const telling = time.Second

// disturbed reports whether containerd does not work, or did not a moment ago.
func (e *engine) disturbed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trouble > 0 || time.Since(e.well) < aftermath
}

// busy reports whether a fault of containerd lasts.
func (e *engine) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trouble > 0
}

func (e *engine) begin() (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trouble++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.trouble--
		e.well = time.Now()
	}
}

// crash kills containerd and restarts containerd after down.
func (e *engine) crash(down time.Duration) {
	defer e.begin()()
	// An end during the crash, or shortly before, is not reported.
	defer e.world.after(time.Second, e.world.ledger.begin(&e.world.ledger.disturbed, telling))
	if err := e.c.Kill(); err != nil {
		e.world.wrong("containerd cannot be killed: %v", err)
	}
	e.world.journal.say("containerd: killed, for %s", down)
	time.Sleep(down)
	began := time.Now()
	if err := e.c.Restart(context.Background()); err != nil {
		e.world.wrong("containerd does not come back: %v", err)
	}
	e.world.journal.say("containerd: back after %s", time.Since(began))
}

// hang stops containerd and lets containerd continue after d.
func (e *engine) hang(d time.Duration) {
	defer e.begin()()
	pid := e.c.PID()
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	e.world.journal.say("containerd: hangs, for %s", d)
	time.Sleep(d)
	_ = syscall.Kill(pid, syscall.SIGCONT)
	e.world.journal.say("containerd: goes on")
}
