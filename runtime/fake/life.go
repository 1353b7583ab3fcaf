// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"slices"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// The functions below change the state of a container, with World.mu held.

const sigkilled = 137 // 128+SIGKILL

// run changes a created container with a script to running.
func (w *World) run(c *container) {
	c.state = runtime.StateRunning
	c.started = time.Now()
	w.echo(c)
	for _, other := range c.pod.containers {
		if other != c && other.spec.Name == c.spec.Name && other.state == runtime.StateRunning {
			w.overlap(other, c)
		}
	}
	if c.script.ExitAfter > 0 && c.script.ExitAfter < Never {
		w.planExit(c, c.script.ExitAfter, c.script.ExitCode, c.script.Reason)
	}
}

// planExit plans the exit of c after d, unless an earlier exit is planned.
func (w *World) planExit(c *container, d time.Duration, code int32, reason string) {
	at := time.Now().Add(d)
	if w.mu.closed || c.timer != nil && !at.Before(c.exitAt) {
		return
	}
	c.disarm()
	c.exitAt, c.exitCode, c.exitReason = at, code, reason
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if c.timer != t { // the timer fired before disarm stopped it
			return
		}
		w.exit(c, c.exitCode, c.exitReason)
		w.hint(c.pod.uid)
	})
	c.timer = t
}

func (c *container) disarm() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// terminate delivers SIGTERM. Further calls have no effect.
func (w *World) terminate(c *container) {
	if c.terminating {
		return
	}
	c.terminating = true
	w.event(c.call(OpTerminating), c.id, "")
	switch {
	case c.script.TermAfter <= 0:
		w.exit(c, c.script.TermCode, "")
	case c.script.TermAfter < Never:
		w.planExit(c, c.script.TermAfter, c.script.TermCode, "")
	}
}

// exit ends c. An empty reason becomes Completed or Error. A created container that exits can never
// be started.
func (w *World) exit(c *container, code int32, reason string) {
	c.disarm()
	if reason == "" {
		reason = runtime.ReasonError
		if code == 0 {
			reason = runtime.ReasonCompleted
		}
	}
	if c.script != nil {
		c.message = c.script.Message[:min(len(c.script.Message), 4096)]
	}
	c.state, c.lost = runtime.StateExited, false
	c.code, c.reason, c.exited = code, reason, time.Now()
	// Release the parts of the spec that only a running container needs.
	c.spec.Command, c.spec.Args, c.spec.Env, c.spec.Mounts, c.spec.Labels = nil, nil, nil, nil, nil
	c.spec.Pod, c.spec.Container = nil, nil
	if c.done != nil {
		close(c.done)
		c.done = nil
	}
	for _, cancel := range c.execs {
		(*cancel)()
	}
	c.execs = nil
	w.event(c.call(OpExited), c.id, exitDetail(code, reason))
	w.echo(c)
}

// echo hints at a change that a call may have brought about, if WorldOptions.Echo is set. World.mu
// is held.
func (w *World) echo(c *container) {
	if w.opts.Echo {
		w.hint(c.pod.uid)
	}
}

// kill sends SIGKILL to a running container. An exit due at the same instant comes first, so that
// the result does not depend on the order of timers.
func (w *World) kill(c *container) {
	switch {
	case c.state != runtime.StateRunning:
	case c.timer != nil && !time.Now().Before(c.exitAt):
		w.exit(c, c.exitCode, c.exitReason)
		w.hint(c.pod.uid)
	default:
		w.exit(c, sigkilled, "")
	}
}

// stopSandbox kills the running containers of s and makes s not ready.
func (w *World) stopSandbox(s *sandbox) {
	for _, c := range s.pod.containers {
		if c.sandbox == s {
			w.kill(c)
		}
	}
	s.ready = false
}

// newestRunning returns the newest running instance of a container.
func (p *pod) newestRunning(name string) *container {
	for _, c := range slices.Backward(p.containers) {
		if c.spec.Name == name && c.state == runtime.StateRunning {
			return c
		}
	}
	return nil
}
