// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Call is a request and what became of it.
type Call struct {
	Request
	// Body is what the client sent, nil if nothing or if the connection was
	// upgraded.
	Body []byte
	// At is when the request came, and Done when it was over; zero before.
	At, Done time.Time
	// Code is the status the client was given; 0 while there is none, and for
	// good if the connection was cut.
	Code int
	// Forwarded is when the server was asked; zero if it was not.
	Forwarded time.Time
}

// journal is all calls since the last reset, in the order of their coming.
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

// begin notes a call and returns its record, which only update may change.
func (j *journal) begin(c Call) *Call {
	j.update(func() { j.mu.calls = append(j.mu.calls, &c) })
	return &c
}

// update changes records with the lock held, and tells who waits for changes.
func (j *journal) update(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
	close(j.mu.changed)
	j.mu.changed = make(chan struct{})
}

// calls returns copies of the calls that match, and what is closed when there is
// something new. Bodies are shared: nobody changes them.
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
