// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/faults"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Entry describes a finished request.
type Entry struct {
	// At is the start of the request, as the time since the Server was created. Took is the
	// duration of the request.
	At, Took time.Duration
	Request  statusmanager.Request
	Pod      statusmanager.PodRef
	// Patch is the text of the patch.
	Patch string
	// Changed reports whether the request changed the stored pod.
	Changed bool
	// Phase is the phase of the pod afterwards; empty if the request failed.
	Phase v1.PodPhase
	// Err is the error of the request.
	Err error
}

// String returns the time in seconds, the request, the pod, and the result.
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

// Journal is the requests in the order of their end.
type Journal []Entry

// String returns one line per entry.
func (j Journal) String() string { return faults.Lines(j) }

// Journal returns the kept entries, oldest first.
func (s *Server) Journal() Journal {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.mu.journal
	if limit := s.options.JournalLimit; limit > 0 && len(kept) > limit {
		kept = kept[len(kept)-limit:]
	}
	return slices.Clone(kept)
}

// totals counts all requests, and the requests with a change, by kind.
type totals struct {
	all, changed [statusmanager.RequestDelete + 1]int
}

// Total is the number of finished requests of a kind, including requests no longer in the journal.
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
