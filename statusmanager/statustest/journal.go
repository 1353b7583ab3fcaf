// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/statusmanager"
)

// Entry is a request that has ended.
type Entry struct {
	// At is when it came, as the time since the Server was made, and Took how long it took.
	At, Took time.Duration
	Request  statusmanager.Request
	Pod      statusmanager.PodRef
	// Patch is what was to change.
	Patch string
	// Changed: it did change something.
	Changed bool
	// Phase is that of the pod afterwards; empty if the request failed.
	Phase v1.PodPhase
	// Err is what came back.
	Err error
}

// String is the time in seconds, the request, the pod, and what came of it.
func (e Entry) String() string {
	result := "ok, " + string(e.Phase)
	switch {
	case e.Err != nil:
		result = strings.ReplaceAll(e.Err.Error(), "\n", "; ")
	case e.Request != statusmanager.RequestGet && !e.Changed:
		result = "ok, nothing changed"
	}
	return fmt.Sprintf("%9.3fs %s %s: %s", e.At.Seconds(), e.Request, e.Pod, result)
}

// Journal is the requests in the order in which they ended.
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

// Journal returns what the journal holds, oldest first.
func (s *Server) Journal() Journal {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.mu.journal
	if limit := s.options.JournalLimit; limit > 0 && len(kept) > limit {
		kept = kept[len(kept)-limit:]
	}
	return slices.Clone(kept)
}

// totals counts requests, and those that changed something, by kind.
type totals struct {
	all, changed [statusmanager.RequestDelete + 1]int
}

// Total is how many requests of a kind have ended, whether the journal still holds them or not.
func (s *Server) Total(kind statusmanager.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.totals.all[kind]
}

// Changes is how many requests of a kind have changed something.
func (s *Server) Changes(kind statusmanager.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.totals.changed[kind]
}

// write adds to the journal.
func (s *Server) write(e Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.totals.all[e.Request]++
	if e.Changed {
		s.mu.totals.changed[e.Request]++
	}
	if s.options.JournalLimit < 0 {
		return
	}
	s.mu.journal = append(s.mu.journal, e)
	if limit := s.options.JournalLimit; limit > 0 && len(s.mu.journal) > 2*limit {
		s.mu.journal = slices.Clone(s.mu.journal[len(s.mu.journal)-limit:])
	}
}
