// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Call is a request with its result.
type Call struct {
	Request
	// Body is the body of the request, nil for an empty body or an upgraded connection.
	Body []byte
	// At is when the request arrived, and Done when the request ended; Done is zero before.
	At, Done time.Time
	// Code is the status sent to the client; 0 before the answer, and after a cut connection.
	Code int
	// Forwarded is when the request was sent to the server; zero if not sent.
	Forwarded time.Time
}

// journal is all calls since the last reset, in the order of arrival.
type journal struct {
	mu struct {
		sync.Mutex
		calls   []*Call
		changed chan struct{} // closed and replaced at each change
	}
}

func newJournal() *journal {
	j := new(journal)
	j.mu.changed = make(chan struct{})
	return j
}

// begin records a call and returns its record. Only update may change the record.
func (j *journal) begin(c Call) *Call {
	j.update(func() { j.mu.calls = append(j.mu.calls, &c) })
	return &c
}

// update changes records with the lock held, and wakes callers of wait.
func (j *journal) update(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
	close(j.mu.changed)
	j.mu.changed = make(chan struct{})
}

// calls returns copies of the matching calls, and a channel that closes at the next change. The
// copies share their bodies, so callers must not write to the bodies.
func (j *journal) calls(match func(Call) bool) ([]Call, <-chan struct{}) {
	j.mu.Lock()
	all, changed := make([]Call, 0, len(j.mu.calls)), j.mu.changed
	for _, c := range j.mu.calls {
		all = append(all, *c)
	}
	j.mu.Unlock()
	if match == nil {
		return all, changed
	}
	return slices.DeleteFunc(all, func(c Call) bool { return !match(c) }), changed
}

// wait returns when n calls match.
func (j *journal) wait(ctx context.Context, n int, match func(Call) bool) error {
	for {
		calls, changed := j.calls(match)
		if len(calls) >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d calls, of which there are %d: %w", n, len(calls), context.Cause(ctx))
		case <-changed:
		}
	}
}
