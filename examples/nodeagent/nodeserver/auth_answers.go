// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

// Limits of the questions to a reviewer.
const (
	maxAnswers    = 4096             // of each kind that are remembered
	maxReviews    = 64               // at the same time
	reviewTimeout = 30 * time.Second // of one question, with all its tries
)

// errReviewTimeout is the cause of the end of a review's context.
var errReviewTimeout = errors.New("the API server gave no answer within 30 s")

// digest identifies a question by a hash, so that no token and no large question is kept.
type digest [32]byte

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
	yes, no         *cache.LRUExpireCache
	slots           chan struct{}

	mu struct {
		sync.Mutex
		open map[digest]*review
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
	a.yes, a.no = cache.NewLRUExpireCache(maxAnswers), cache.NewLRUExpireCache(maxAnswers)
	a.mu.open = map[digest]*review{}
	return a
}

// ask returns the remembered answer, or calls do. The context of do ends when all callers that wait
// for the answer have left. Errors are not remembered.
func (a *answers) ask(ctx context.Context, key digest, do func(context.Context) (answer, error)) (answer, error) {
	a.mu.Lock()
	if known, ok := a.known(key); ok {
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

func (a *answers) known(key digest) (answer, bool) {
	known, ok := a.yes.Get(key)
	if !ok {
		known, ok = a.no.Get(key)
	}
	said, _ := known.(answer)
	return said, ok
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
			a.remember(key, said)
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

// remember keeps an answer. A cache has the answer also in the last instant of its time, hence the -1.
func (a *answers) remember(key digest, said answer) {
	if said.yes {
		a.yes.Add(key, said, a.keepYes-1)
		return
	}
	a.no.Add(key, said, a.keepNo-1)
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
