// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/bucket"
)

// budgetInterval is the time in which a name gains a further call with requests, after its first
// bucket.Burst calls. A call sends at most seven requests.
const budgetInterval = 10 * time.Second

// BudgetError is an ErrBudget: another writer deletes or changes a mirror pod again and again, or
// the API server keeps failing.
type BudgetError struct {
	// FullName is the full name of the mirror pod.
	FullName string
	// RetryAt is the time from which the next call may send requests.
	RetryAt time.Time
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("%v: %s, again at %s", ErrBudget, e.FullName, e.RetryAt.UTC().Format(time.RFC3339))
}

// Unwrap returns ErrBudget.
func (e *BudgetError) Unwrap() error { return ErrBudget }

// budgets holds the budgets of names with a budget that is not full.
type budgets struct {
	mu struct {
		sync.Mutex
		buckets map[string]bucket.Bucket
		// gone has the UID of the last deleted pod of each name.
		gone map[string]types.UID
		// wishes has the content that the last charged call of each name was for.
		wishes map[string]string
		swept  time.Time
	}
}

// noteGone records that the API server has no pod of a name and UID any more.
func (b *budgets) noteGone(fullName string, uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, held := b.mu.buckets[fullName]; held { // so that sweep forgets it
		b.mu.gone[fullName] = uid
	}
}

// isGone reports whether a pod was deleted a short time ago, although an outdated view still has
// it.
func (b *budgets) isGone(fullName string, uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return uid != "" && b.mu.gone[fullName] == uid
}

// charge takes a call out of the budget of a name, or returns a *BudgetError. wish is the wanted
// content, "" for no mirror pod. The first call for another wish than before is always allowed: the
// static pod has changed, and its mirror pod follows at once.
func (b *budgets) charge(fullName, wish string, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	held := b.mu.buckets[fullName]
	if due := held.Due(budgetInterval); due.After(now) {
		if b.mu.wishes[fullName] == wish {
			return &BudgetError{FullName: fullName, RetryAt: due}
		}
	} else {
		held.Charge(now, budgetInterval)
	}
	b.mu.buckets[fullName], b.mu.wishes[fullName] = held, wish
	return nil
}

// sweep forgets the names with a full budget, once per interval. The caller holds the lock.
func (b *budgets) sweep(now time.Time) {
	if b.mu.buckets == nil {
		b.mu.buckets, b.mu.gone, b.mu.wishes = map[string]bucket.Bucket{}, map[string]types.UID{}, map[string]string{}
	}
	if now.Sub(b.mu.swept) < budgetInterval {
		return
	}
	b.mu.swept = now
	for name, held := range b.mu.buckets {
		if held.Full(now) {
			delete(b.mu.buckets, name)
			delete(b.mu.gone, name)
			delete(b.mu.wishes, name)
		}
	}
}
