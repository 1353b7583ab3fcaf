// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Limits of the questions to a reviewer.
const (
	maxAnswers    = 4096             // of each kind that are remembered
	maxReviews    = 64               // at the same time
	reviewTimeout = 30 * time.Second // of one question, with all its tries
)

// errReviewTimeout is the cause of the end of a review's context.
var errReviewTimeout = errors.New("the API server gave no answer within 30 s")

// answer is the answer of a reviewer.
type answer struct {
	user User // of a token that is accepted
	yes  bool
}

// answers asks a reviewer and caches the answers. Concurrent callers with the same question share a
// request. Refusals have a separate cache, so that a flood of wrong credentials does not displace
// answers to valid credentials.
type answers struct {
	keepYes, keepNo time.Duration
	slots           chan struct{}

	mu struct {
		sync.Mutex
		yes, no *cache[answer]
		open    map[digest]*review
	}
}

// review is a question that is being asked.
type review struct {
	done    chan struct{} // closed after answer and err are set
	answer  answer
	err     error
	waiting int // callers, guarded by the lock of answers
	cancel  context.CancelFunc
}

func newAnswers(keepYes, keepNo time.Duration) *answers {
	a := &answers{keepYes: keepYes, keepNo: keepNo, slots: make(chan struct{}, maxReviews)}
	a.mu.yes, a.mu.no = newCache[answer](maxAnswers), newCache[answer](maxAnswers)
	a.mu.open = map[digest]*review{}
	return a
}

// ask returns the remembered answer, or calls do. The context of do ends when all callers that wait
// for the answer have left. Errors are not remembered.
func (a *answers) ask(ctx context.Context, key digest, do func(context.Context) (answer, error)) (answer, error) {
	a.mu.Lock()
	if known, ok := a.knownLocked(key); ok {
		a.mu.Unlock()
		return known, nil
	}
	r := a.mu.open[key]
	if r == nil {
		r = a.beginLocked(ctx, key, do)
	}
	r.waiting++
	a.mu.Unlock()
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
		a.leave(key, r)
		return answer{}, context.Cause(ctx)
	}
}

func (a *answers) knownLocked(key digest) (answer, bool) {
	now := time.Now()
	if known, ok := a.mu.yes.get(key, now); ok {
		return known, true
	}
	return a.mu.no.get(key, now)
}

// beginLocked starts a goroutine that ends when the question is answered or abandoned.
func (a *answers) beginLocked(ctx context.Context, key digest, do func(context.Context) (answer, error)) *review {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), reviewTimeout, errReviewTimeout)
	r := &review{done: make(chan struct{}), cancel: cancel}
	a.mu.open[key] = r
	go func() {
		defer cancel()
		said, err := a.inTurn(ctx, do)
		a.mu.Lock()
		defer a.mu.Unlock()
		if err == nil {
			a.rememberLocked(key, said)
		}
		r.answer, r.err = said, err
		close(r.done)
		a.forgetLocked(key, r)
	}()
	return r
}

// inTurn calls do when fewer than maxReviews questions are being asked.
func (a *answers) inTurn(ctx context.Context, do func(context.Context) (answer, error)) (answer, error) {
	select {
	case a.slots <- struct{}{}:
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	defer func() { <-a.slots }()
	said, err := do(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errReviewTimeout) {
		err = errReviewTimeout
	}
	return said, err
}

func (a *answers) rememberLocked(key digest, said answer) {
	if said.yes {
		a.mu.yes.put(key, said, time.Now().Add(a.keepYes))
		return
	}
	a.mu.no.put(key, said, time.Now().Add(a.keepNo))
}

// leave abandons the review if no other caller waits for it.
func (a *answers) leave(key digest, r *review) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.cancel()
		a.forgetLocked(key, r)
	}
}

// forgetLocked lets the next caller ask anew.
func (a *answers) forgetLocked(key digest, r *review) {
	if a.mu.open[key] == r {
		delete(a.mu.open, key)
	}
}
