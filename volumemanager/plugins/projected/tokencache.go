// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/keylock"
	"github.com/keelson-dev/keelson/internal/signal"
)

const (
	// maxTokenAge is the age at which a token is renewed, whatever its lifetime; the same as the
	// kubelet's.
	maxTokenAge = 24 * time.Hour
	// tokenRetry is the pause after a failure of the source while the old token is valid, and the
	// interval between reminders of a due token.
	tokenRetry = 30 * time.Second
	// tokenGrace is the time after which a due token without requests is dropped. If a pod ends before
	// the SetUp of its volume, no TearDown drops the token.
	tokenGrace = time.Hour
)

// ErrRunning is returned by a second call of TokenCache.Run.
var ErrRunning = errors.New("projected: TokenCache.Run was called before")

// dueAt returns the time to renew a token: after four fifths of its lifetime.
func dueAt(issued, expires time.Time) time.Time {
	return issued.Add(min(expires.Sub(issued)*4/5, maxTokenAge))
}

// TokenCacheOptions are the options of NewTokenCache.
type TokenCacheOptions struct {
	// Source creates the tokens. Required.
	Source TokenSource
	// Due is called by Run, in Run's goroutine, when a token of a pod is due. Due should start a
	// refresh of the pod's volumes without waiting for the refresh. Defaults to no call: a due
	// token is renewed in the next sync.
	Due func(uid types.UID)
}

// TokenCache keeps each token for four fifths of its lifetime, at most 24 hours. If the source then
// fails, TokenCache returns the old token until it expires. With Run, an unused token is dropped
// when it has expired, or an hour after it was due. TokenCache implements TokenSource and
// TokenForgetter, and is safe for concurrent use.
type TokenCache struct {
	options TokenCacheOptions
	turns   keylock.Locks[TokenRequest]
	changed signal.Signal // holds a token if Run must check again
	ran     atomic.Bool
	mu      struct {
		sync.Mutex
		tokens map[TokenRequest]*cachedToken
	}
}

type cachedToken struct {
	token Token
	// due is the time of the next request to the source, remind the time of Run's next call of Due.
	due, remind time.Time
}

// NewTokenCache returns a cache. The error names the invalid option.
func NewTokenCache(o TokenCacheOptions) (*TokenCache, error) {
	if o.Source == nil {
		return nil, errors.New("projected: TokenCacheOptions.Source is required")
	}
	if o.Due == nil {
		o.Due = func(types.UID) {}
	}
	c := &TokenCache{options: o, changed: signal.New()}
	c.mu.tokens = map[TokenRequest]*cachedToken{}
	return c, nil
}

// Token returns a token that is not due, or the old token if the source fails and the old token has
// not expired.
func (c *TokenCache) Token(ctx context.Context, r TokenRequest) (Token, error) {
	back, err := c.turns.Lock(ctx, r)
	if err != nil {
		return Token{}, err
	}
	defer back()
	old, ok := c.lookUp(r)
	if ok && time.Now().Before(old.due) {
		return old.token, nil
	}
	fresh, err := c.options.Source.Token(ctx, r)
	now := time.Now()
	switch {
	case err == nil:
		due := dueAt(now, fresh.Expires)
		c.keep(r, cachedToken{fresh, due, due})
		return fresh, nil
	case ok && now.Before(old.token.Expires):
		next := now.Add(tokenRetry)
		c.keep(r, cachedToken{old.token, next, next})
		return old.token, nil
	}
	return Token{}, err
}

func (c *TokenCache) lookUp(r TokenRequest) (cachedToken, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.mu.tokens[r]; t != nil {
		return *t, true
	}
	return cachedToken{}, false
}

func (c *TokenCache) keep(r TokenRequest, t cachedToken) {
	c.mu.Lock()
	c.mu.tokens[r] = &t
	c.mu.Unlock()
	c.changed.Notify()
}

// Forget drops the tokens of a pod.
func (c *TokenCache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.mu.tokens {
		if r.PodUID == uid {
			delete(c.mu.tokens, r)
		}
	}
}

// Run calls Due for due tokens until ctx ends, then returns nil. Run sleeps until the next token is
// due.
func (c *TokenCache) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return ErrRunning
	}
	for {
		pods, next := c.due(time.Now())
		for uid := range pods {
			c.options.Due(uid)
		}
		var wake <-chan time.Time // nil if there is no token
		if !next.IsZero() {
			wake = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		case <-wake:
		}
	}
}

// due returns the pods with due tokens, and the time of the next due token.
func (c *TokenCache) due(now time.Time) (pods map[types.UID]bool, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pods = map[types.UID]bool{}
	for r, t := range c.mu.tokens {
		if !now.Before(t.remind) {
			pods[r.PodUID] = true
			if !now.Before(t.token.Expires) || now.Sub(t.due) >= tokenGrace {
				delete(c.mu.tokens, r)
				continue
			}
			t.remind = now.Add(tokenRetry)
		}
		if next.IsZero() || t.remind.Before(next) {
			next = t.remind
		}
	}
	return pods, next
}
