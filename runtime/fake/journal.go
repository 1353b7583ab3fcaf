// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/faults"
)

// Entry is a line of the journal: a call or an event.
type Entry struct {
	Call
	// At is the start of the call, as the time since the World was made.
	At time.Duration
	// ID is the ID of the sandbox or container; empty before the ID is assigned.
	ID string
	// Detail has further text, such as the grace period or the exit code.
	Detail string
	// UnderWay: the call has not returned yet.
	UnderWay bool
	// Took is the duration of the call.
	Took time.Duration
	// Err is the returned error.
	Err error
	// Done: the call took effect at DoneAt, even if the call failed or has not returned. In entries
	// of events both fields are zero.
	Done   bool
	DoneAt time.Duration
}

// String returns What, preceded by the start in seconds and followed by the duration of the call.
func (e Entry) String() string {
	s := fmt.Sprintf("%11.3fs %s", e.At.Seconds(), e.What())
	if e.Took > 0 {
		s += fmt.Sprintf(" (%v)", e.Took)
	}
	return s
}

// What returns the entry on one line, without times.
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

// Journal is a list of entries in the order of the calls' starts.
type Journal []Entry

// String prints one line per entry.
func (j Journal) String() string { return faults.Lines(j) }

// Of returns the entries that the target selects.
func (j Journal) Of(target Target) Journal {
	var out Journal
	for _, e := range j {
		if target.matches(e.Call) {
			out = append(out, e)
		}
	}
	return out
}

// Journal returns a copy of the journal, oldest entry first.
func (w *World) Journal() Journal {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(Journal, 0, len(w.mu.journal.entries))
	for e := range w.mu.journal.all() {
		out = append(out, *e)
	}
	return out
}

// Dropped returns the number of entries dropped from the journal.
func (w *World) Dropped() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.journal.dropped
}

// Total returns the number of calls or events of the kind op, including dropped entries.
func (w *World) Total(op Op) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.journal.totals[op]
}

// journal keeps the last limit entries; 0: all, negative: none.
type journal struct {
	limit   int
	entries []*Entry // a ring buffer when full
	next    int      // index of the oldest entry, which is replaced next
	dropped int
	totals  map[Op]int
}

// count counts an operation, and reports whether the journal keeps its entry.
func (j *journal) count(op Op) (kept bool) {
	if j.totals == nil {
		j.totals = map[Op]int{}
	}
	j.totals[op]++
	if j.limit < 0 {
		j.dropped++
		return false
	}
	return true
}

// add adds the entry of a counted operation.
func (j *journal) add(e *Entry) {
	switch {
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

// event adds an event to the journal. World.mu is held.
func (w *World) event(call Call, id, detail string) {
	if w.mu.journal.count(call.Op) {
		w.mu.journal.add(&Entry{Call: call, At: time.Since(w.born), ID: id, Detail: detail})
	}
}

func exitDetail(code int32, reason string) string {
	return "code " + strconv.Itoa(int(code)) + " (" + reason + ")"
}
