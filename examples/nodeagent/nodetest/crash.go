// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/keelson-dev/keelson/runtime/fake"
)

// CrashAgent ends the agent as kill -9 would, if there is one: from now on
// nothing that it does has any effect. Of each of its calls under way, seed
// decides whether it still takes effect. StartAgent starts another.
//
// What cannot be simulated: what the agent itself writes to its folder, such as
// mount records, is written at one instant of virtual time, so that no crash finds
// it half done; and its goroutines live on, unheard, until they notice that
// everything fails.
func (n *Node) CrashAgent(seed uint64) { n.crash(rand.New(rand.NewPCG(seed, 0))) }

// crash is CrashAgent; with nil no call under way takes effect.
func (n *Node) crash(chance *rand.Rand) {
	l := n.life
	if l == nil {
		return
	}
	n.abandon(l, chance)
	n.Settle()
}

// abandon is what a crash is to an agent.
func (n *Node) abandon(l *life, chance *rand.Rand) {
	l.lease.revoke(chance)
	// Its sources have failed now, so that it does not even try to stop its pods.
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

// Effect tells whether a call takes effect.
type Effect uint8

// What becomes of the call at which an agent crashes.
const (
	Undone Effect = iota
	Done
)

// CrashAgentOn has the agent crash at its nth call, from 1, that on picks: before
// the call takes effect, or right after it. on.Op may also be OpPatchStatus,
// OpDeletePod, OpSetUp or OpTearDown. on.Pod and on.UID count for calls that name
// a pod: RunSandbox, CreateContainer, and these four. What is returned is closed
// at the crash; then call CrashAgent, which deals with the other calls under way.
// It is closed at once if there is no agent.
func (n *Node) CrashAgentOn(on fake.Target, nth int, effect Effect) <-chan struct{} {
	sprung := make(chan struct{})
	if n.life == nil {
		close(sprung)
	} else {
		n.life.lease.set(&trap{on: on, left: max(nth, 1), done: effect == Done, sprung: sprung})
	}
	return sprung
}

// SuspendAgent holds up everything that the agent does outside of itself, and
// what it is told, until ResumeAgent: as if it were not scheduled while time, and
// the containers, went on. The agent's own timers fire meanwhile.
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
