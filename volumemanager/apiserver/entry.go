// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// Phase is what is being done about an object.
type Phase string

// The phases, and where they lead:
//
//	Waiting ──due──► Opening ──answer──► Watching ──ended──► Waiting
//	   ▲  ▲             │ │
//	   │  └───failed────┘ └──immutable──► Settled
//	   └───────────a new pod────────────────┘
const (
	// PhaseWaiting: the object will be asked for when it is its turn.
	PhaseWaiting Phase = "Waiting"
	// PhaseOpening: it is being asked for.
	PhaseOpening Phase = "Opening"
	// PhaseWatching: the server tells what happens to it.
	PhaseWatching Phase = "Watching"
	// PhaseSettled: it is immutable, and left alone.
	PhaseSettled Phase = "Settled"
)

// entry is an object that registered pods use. All fields but the channels and ref are guarded by Objects.mu.
type entry struct {
	ref     objects.Ref
	users   int // pods
	phase   Phase
	since   time.Time          // of phase
	dropped chan struct{}      // closed when the last user is gone
	cancel  context.CancelFunc // of the round; nil before the first

	answered chan struct{} // closed with the first answer
	known    bool          // answered is closed
	content  content
	missed   bool   // somebody was told that it is not known
	problem  *Error // of the last attempt

	failures int // attempts in a row
	place    int // in the queue; -1 if not in it
	due      time.Time
	serial   uint64
}

func newEntry(ref objects.Ref, now time.Time) *entry {
	return &entry{ref: ref, phase: PhaseWaiting, since: now, place: -1,
		dropped: make(chan struct{}), answered: make(chan struct{})}
}

func (e *entry) enter(p Phase, now time.Time) { e.phase, e.since = p, now }

// learn notes what the server said, and tells whether that is news to anybody.
func (e *entry) learn(c content) (news bool) {
	if e.known {
		news = !e.content.same(c)
		e.content = c
		return news
	}
	e.content, e.known = c, true
	close(e.answered)
	return e.missed
}

// ObjectState is what Objects knows of one object.
type ObjectState struct {
	Ref objects.Ref
	// Pods is how many registered pods use it.
	Pods int
	// Phase is what is being done about it, and Since from when on.
	Phase Phase
	Since time.Time
	// Known tells whether the server has answered, and Exists whether the object exists then.
	Known, Exists bool
	// Err is why the last attempt to ask, or the watch, failed; nil if it did not.
	Err error
}

func (e *entry) state() ObjectState {
	s := ObjectState{Ref: e.ref, Pods: e.users, Phase: e.phase, Since: e.since, Known: e.known, Exists: e.content.meta() != nil}
	if e.problem != nil {
		s.Err = e.problem
	}
	return s
}
