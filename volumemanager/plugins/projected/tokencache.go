// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/keyed"
)

const (
	// maxTokenAge is after how long a token is renewed at the latest, however long it lives; the kubelet's.
	maxTokenAge = 24 * time.Hour
	// tokenRetry is how long a source that failed is left alone while the old token holds, and after how long a
	// refresh that did not come is asked for again.
	tokenRetry = 30 * time.Second
	// tokenGrace is after how long a token that is due, and that nobody asks for, is taken for that of a pod that went
	// before its volume was ever set up, so that nothing was torn down either.
	tokenGrace = time.Hour
)

// ErrRunning says that TokenCache.Run was called twice.
var ErrRunning = errors.New("projected: TokenCache.Run was called before")

// dueAt returns when a token is to be renewed: when four fifths of its life are over.
func dueAt(issued, expires time.Time) time.Time {
	return issued.Add(min(expires.Sub(issued)*4/5, maxTokenAge))
}

// TokenCacheOptions are the options of NewTokenCache.
type TokenCacheOptions struct {
	// Source makes the tokens. Required.
	Source TokenSource
	// Due is told that a pod has a token to be renewed, by Run and in its goroutine: it has the pod's volumes
	// refreshed, and does not wait for it. Defaults to nobody: tokens are renewed at the next sync after they are due.
	Due func(uid types.UID)
}

// TokenCache keeps each token until four fifths of its life are over. If the source fails then, the old token goes on
// being given out until it expires. With Run, one that nobody asks for any more is dropped when it has expired, or an hour
// after it was due. It is a TokenSource and TokenForgetter, safe for concurrent use.
type TokenCache struct {
	options TokenCacheOptions
	turns   keyed.Turns[TokenRequest]
	changed chan struct{} // holds one token if Run has to look again
	mu      struct {
		sync.Mutex
		running bool
		tokens  map[TokenRequest]*cachedToken
	}
}

type cachedToken struct {
	token Token
	// due is when the source is to be asked again, remind when Run next says so.
	due, remind time.Time
}

// NewTokenCache returns a cache. An error names the option that is wrong.
func NewTokenCache(o TokenCacheOptions) (*TokenCache, error) {
	if o.Source == nil {
		return nil, errors.New("projected: TokenCacheOptions.Source is required")
	}
	if o.Due == nil {
		o.Due = func(types.UID) {}
	}
	c := &TokenCache{options: o, changed: make(chan struct{}, 1)}
	c.mu.tokens = map[TokenRequest]*cachedToken{}
	return c, nil
}

// Token returns a token that is not due yet, or the old one if there is no new one and it has not expired.
func (c *TokenCache) Token(ctx context.Context, r TokenRequest) (Token, error) {
	back, err := c.turns.Take(ctx, r)
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
	select {
	case c.changed <- struct{}{}:
	default:
	}
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

// Run tells Due of tokens until ctx ends, and returns nil then. It sleeps until the next one is due.
func (c *TokenCache) Run(ctx context.Context) error {
	c.mu.Lock()
	again := c.mu.running
	c.mu.running = true
	c.mu.Unlock()
	if again {
		return ErrRunning
	}
	for {
		pods, next := c.due(time.Now())
		for uid := range pods {
			c.options.Due(uid)
		}
		var wake <-chan time.Time // never, if there is no token
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

// due returns the pods with tokens that are due, and when there will be the next.
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
