// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"fmt"
	"strings"
	"time"
)

// Entry is one line of the journal: a call, or something that happened.
type Entry struct {
	Call
	// At is when it came in, as the time since the World was made.
	At time.Duration
	// ID is the sandbox's or container's ID; empty if there is none (yet).
	ID string
	// Detail says more, in words: the grace period, the exit code.
	Detail string
	// UnderWay: the call has not returned yet.
	UnderWay bool
	// Took is how long the call took.
	Took time.Duration
	// Err is what it returned.
	Err error
	// Done: the call took effect, at DoneAt, whatever it returned, if it has
	// returned at all. Things that happen by themselves have neither.
	Done   bool
	DoneAt time.Duration
}

// String is What, with the time before it, in seconds, and what the call took
// behind it.
func (e Entry) String() string {
	s := fmt.Sprintf("%11.3fs %s", e.At.Seconds(), e.What())
	if e.Took > 0 {
		s += fmt.Sprintf(" (%v)", e.Took)
	}
	return s
}

// What prints the entry without any time, on one line.
func (e Entry) What() string {
	var b strings.Builder
	b.WriteString(string(e.Op))
	if e.Pod != "" || e.UID != "" {
		b.WriteString(" ")
		if e.Pod == "" {
			b.WriteString(string(e.UID))
		} else {
			b.WriteString(e.Namespace + "/" + e.Pod)
		}
		if e.Container != "" {
			b.WriteString("/" + e.Container)
		}
	}
	for _, s := range []string{e.ID, e.Detail} {
		if s != "" {
			b.WriteString(" " + s)
		}
	}
	switch {
	case e.UnderWay:
		b.WriteString(": under way")
	case e.Err != nil:
		b.WriteString(": " + strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	case e.Op[0] >= 'A' && e.Op[0] <= 'Z':
		b.WriteString(": ok")
	}
	return b.String()
}

// Journal is what happened, in the order in which calls came in.
type Journal []Entry

// String prints one line per entry.
func (j Journal) String() string {
	var b strings.Builder
	for _, e := range j {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Of returns the entries that on picks.
func (j Journal) Of(on Target) Journal {
	var out Journal
	for _, e := range j {
		if on.matches(e.Call) {
			out = append(out, e)
		}
	}
	return out
}

// Journal returns a copy of what the journal holds, oldest first.
func (w *World) Journal() Journal {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(Journal, 0, len(w.mu.journal.entries))
	for e := range w.mu.journal.all() {
		out = append(out, *e)
	}
	return out
}

// Dropped is how many entries the journal no longer holds.
func (w *World) Dropped() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.journal.dropped
}

// Total is how often something happened, whether the journal still holds it or
// not.
func (w *World) Total(op Op) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.journal.totals[op]
}

// journal keeps the last limit entries; 0: all, negative: none.
type journal struct {
	limit   int
	entries []*Entry // a ring once it is full
	next    int      // where the ring's next entry goes: the oldest one
	dropped int
	totals  map[Op]int
}

func (j *journal) add(e *Entry) {
	if j.totals == nil {
		j.totals = map[Op]int{}
	}
	j.totals[e.Op]++
	switch {
	case j.limit < 0:
		j.dropped++
	case j.limit == 0 || len(j.entries) < j.limit:
		j.entries = append(j.entries, e)
	default:
		j.entries[j.next] = e
		j.next = (j.next + 1) % j.limit
		j.dropped++
	}
}

func (j *journal) all() func(yield func(*Entry) bool) {
	return func(yield func(*Entry) bool) {
		for i := range j.entries {
			if !yield(j.entries[(j.next+i)%len(j.entries)]) {
				return
			}
		}
	}
}

// event writes down what happened by itself. World.mu is held.
func (w *World) event(call Call, id, detail string) {
	if w.mu.journal.limit < 0 {
		w.mu.journal.add(&Entry{Call: Call{Op: call.Op}})
		return
	}
	w.mu.journal.add(&Entry{Call: call, At: time.Since(w.born), ID: id, Detail: detail})
}

func exitDetail(code int32, reason string) string { return fmt.Sprintf("code %d (%s)", code, reason) }
