// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// phase is the state of following an object.
type phase string

// The phases, and their transitions:
//
//	Waiting ──due──► Opening ──answer──► Watching ──ended──► Waiting
//	   ▲  ▲             │ │
//	   │  └───failed────┘ └──immutable──► Settled
//	   └───────────a new pod────────────────┘
const (
	// phaseWaiting: the object is queued for a request.
	phaseWaiting phase = "Waiting"
	// phaseOpening: the object is being requested.
	phaseOpening phase = "Opening"
	// phaseWatching: a watch reports changes of the object.
	phaseWatching phase = "Watching"
	// phaseSettled: the object is immutable and not requested any more.
	phaseSettled phase = "Settled"
)

// entry is an object used by registered pods. Objects.mu guards all fields except the channels and
// ref.
type entry struct {
	ref     objects.Ref
	users   int // number of pods
	phase   phase
	dropped chan struct{}      // closed when the last user is gone
	cancel  context.CancelFunc // of the round; nil before the first round

	answered chan struct{} // closed with the first answer
	known    bool          // answered is closed
	content  content
	missed   bool   // a call failed because the object was not known
	problem  *Error // of the last attempt

	failures int // failed attempts in a row
	place    int // index in the queue; -1 if not in the queue
	due      time.Time
	serial   uint64
}

func newEntry(ref objects.Ref) *entry {
	return &entry{ref: ref, phase: phaseWaiting, place: -1,
		dropped: make(chan struct{}), answered: make(chan struct{})}
}

// learn records the server's answer. news reports whether Changed must be called.
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
