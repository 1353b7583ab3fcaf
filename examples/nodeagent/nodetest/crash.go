// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/keelson-dev/keelson/runtime/fake"
)

// CrashAgent ends a running agent like kill -9: nothing that the agent does afterwards has an
// effect. For each call in progress, seed decides whether the call still takes effect. StartAgent
// starts another agent.
//
// Two aspects cannot be simulated. The agent's own files, such as mount records, are written at a
// single instant of virtual time, so no crash finds a half-written file. The goroutines of the
// agent live on without effect, until all their calls fail.
func (n *Node) CrashAgent(seed uint64) { n.crash(rand.New(rand.NewPCG(seed, 0))) }

// crash is CrashAgent. With a nil chance no call in progress takes effect.
func (n *Node) crash(chance *rand.Rand) {
	l := n.life
	if l == nil {
		return
	}
	n.abandon(l, chance)
	n.Settle()
}

// abandon crashes an agent.
func (n *Node) abandon(l *life, chance *rand.Rand) {
	l.lease.revoke(chance)
	// The sources of the agent have failed, so the agent does not try to stop its pods.
	n.life = nil
	l.lock.Unlock()
	n.history.mark(MarkAgentCrashed)
	n.crashed.Go(func() {
		err := <-l.done
		l.cancel()
		l.lease.calls.Wait()
		if !errors.Is(err, errCrashed) {
			n.history.say(fmt.Sprintf("the crashed agent ended with: %v", err))
		}
	})
}

// Effect is the effect of a call in progress at a crash.
type Effect uint8

// The effects of the call at which an agent crashes.
const (
	Undone Effect = iota
	Done
)

// CrashAgentOn crashes the agent at its nth matching call, counted from 1: before the call takes
// effect, or right after it. on.Op may also be OpPatchStatus, OpDeletePod, OpSetUp or OpTearDown.
// on.Pod and on.UID match only calls with a pod: RunSandbox, CreateContainer, and these four. The
// returned channel is closed at the crash, or at once without an agent. Then call CrashAgent, which
// handles the other calls in progress.
func (n *Node) CrashAgentOn(on fake.Target, nth int, effect Effect) <-chan struct{} {
	sprung := make(chan struct{})
	if n.life == nil {
		close(sprung)
	} else {
		n.life.lease.set(&trap{on: on, left: max(nth, 1), done: effect == Done, sprung: sprung})
	}
	return sprung
}

// SuspendAgent delays all calls and inputs of the agent until ResumeAgent, as if the agent were not
// scheduled while time and containers continue. The agent's own timers fire meanwhile.
func (n *Node) SuspendAgent() {
	if n.life != nil {
		n.life.lease.suspend()
		n.history.mark(MarkAgentSuspended)
	}
}

// ResumeAgent ends SuspendAgent.
func (n *Node) ResumeAgent() {
	if n.life != nil {
		n.history.mark(MarkAgentResumed)
		n.life.lease.resume()
		n.Settle()
	}
}
