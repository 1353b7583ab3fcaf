// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"net/netip"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// The life of one container. Everything here runs with World.mu held.

const sigkilled = 137 // 128+SIGKILL

// run makes a created container running, with the script it has.
func (w *World) run(c *container) {
	c.state = runtime.StateRunning
	c.started = time.Now()
	for _, other := range c.pod.containers {
		if other != c && other.spec.Name == c.spec.Name && other.state == runtime.StateRunning {
			w.overlap(other, c)
		}
	}
	if c.script.ExitAfter > 0 && c.script.ExitAfter < Never {
		w.head(c, c.script.ExitAfter, c.script.ExitCode, c.script.Reason)
	}
}

// head makes c exit after d, unless it is on its way to an earlier exit.
func (w *World) head(c *container, d time.Duration, code int32, reason string) {
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
		if c.timer != t { // it was too late to disarm this one
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

// terminate delivers SIGTERM, once.
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
		w.head(c, c.script.TermAfter, c.script.TermCode, "")
	}
}

// exit ends c; reason "" is the usual one. What was created is never started.
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
	// What only a running container needs is given back.
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
}

// kill is SIGKILL, for whatever still runs. An exit that is due at this very
// moment comes first, so that the result does not depend on whose timer fires
// first.
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

// stopSandbox kills what runs in s and makes it not ready.
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

func ipString(raw []byte) string {
	addr, _ := netip.AddrFromSlice(raw)
	return addr.String()
}
