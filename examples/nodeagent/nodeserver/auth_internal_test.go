// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reviewer answers questions by a table, and counts them.
type reviewer struct {
	answers map[string]bool // by token, or by subresource
	err     error
	delay   time.Duration

	mu    sync.Mutex
	asked map[string]int
}

func (r *reviewer) say(ctx context.Context, about string) (bool, error) {
	r.mu.Lock()
	if r.asked == nil {
		r.asked = map[string]int{}
	}
	r.asked[about]++
	r.mu.Unlock()
	select {
	case <-time.After(r.delay):
		return r.answers[about], r.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (r *reviewer) ReviewToken(ctx context.Context, token string) (User, bool, error) {
	ok, err := r.say(ctx, token)
	return User{Name: "user of " + token}, ok, err
}

func (r *reviewer) ReviewAccess(ctx context.Context, a Attributes) (bool, error) {
	return r.say(ctx, a.Subresource)
}

func (r *reviewer) count(about string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[about]
}

func withToken(ctx context.Context, token string) *http.Request {
	r, _ := http.NewRequestWithContext(ctx, "GET", "http://node/pods", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func TestTokenLifetimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rev := &reviewer{answers: map[string]bool{"good": true}}
		tokens := Tokens(rev, TokenOptions{})
		check := func(token string, accepted bool, asked int) {
			t.Helper()
			user, ok, err := tokens.Authenticate(withToken(t.Context(), token))
			assert.Equal(t, accepted, ok)
			assert.Equal(t, accepted, err == nil)
			if accepted {
				assert.Equal(t, "user of "+token, user.Name)
			}
			assert.Equal(t, asked, rev.count(token), "%s at %s", token, time.Now())
		}
		check("good", true, 1)
		check("bad", false, 1)
		time.Sleep(badTokenTTL - 1)
		check("good", true, 1)
		check("bad", false, 1) // the kubelet asks again for each request with an invalid token
		time.Sleep(time.Nanosecond)
		check("bad", false, 2)
		time.Sleep(DefaultTokenTTL - badTokenTTL - 1)
		check("good", true, 1)
		time.Sleep(time.Nanosecond)
		rev.answers["good"] = false // deleted meanwhile
		check("good", false, 2)

		rev.err = errors.New("down")
		rev.answers["good"] = true
		time.Sleep(badTokenTTL)
		check("good", false, 3)
		rev.err = nil
		check("good", true, 4) // an error is not remembered
	})
}

func TestAccessLifetimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rev := &reviewer{answers: map[string]bool{"pods": true}}
		access := Access(rev, AccessOptions{AllowTTL: time.Hour})
		ask := func(a Attributes) bool {
			t.Helper()
			ok, err := access.Authorize(t.Context(), a)
			require.NoError(t, err)
			return ok
		}
		alice := Attributes{User: User{Name: "alice", Groups: []string{"a", "b"}, Extra: map[string][]string{"x": {"1"}, "y": {"2"}}}, Verb: "get", Subresource: "pods", Node: "n"}
		for range 10 {
			assert.True(t, ask(alice))
		}
		assert.Equal(t, 1, rev.count("pods"))
		for _, change := range []func(*Attributes){
			func(a *Attributes) { a.User.Name = "bob" },
			func(a *Attributes) { a.User.UID = "1" },
			func(a *Attributes) { a.User.Groups = []string{"a,b"} },
			func(a *Attributes) { a.User.Extra = map[string][]string{"x": {"1"}} },
			func(a *Attributes) { a.Verb = "create" },
		} {
			before := rev.count("pods")
			other := alice
			change(&other)
			assert.True(t, ask(other))
			assert.Equal(t, before+1, rev.count("pods"), "another question: %+v", other)
		}
		stats := alice
		stats.Subresource = "stats"
		assert.False(t, ask(stats))
		time.Sleep(DefaultDenyTTL - 1)
		assert.False(t, ask(stats))
		assert.Equal(t, 1, rev.count("stats"))
		time.Sleep(time.Nanosecond)
		assert.False(t, ask(stats))
		assert.Equal(t, 2, rev.count("stats"))
		before := rev.count("pods")
		time.Sleep(time.Hour - DefaultDenyTTL - 1)
		assert.True(t, ask(alice))
		assert.Equal(t, before, rev.count("pods"))
		time.Sleep(time.Nanosecond)
		assert.True(t, ask(alice))
		assert.Equal(t, before+1, rev.count("pods"))
	})
}

// TestOneReviewForAllCallers: callers with the same token share a review. A caller that leaves does
// not end the review of the others, and the review ends when all have left.
func TestOneReviewForAllCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rev := &reviewer{answers: map[string]bool{"good": true}, delay: 20 * time.Second}
		tokens := Tokens(rev, TokenOptions{})
		var wg sync.WaitGroup
		first, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			_, ok, err := tokens.Authenticate(withToken(first, "good"))
			assert.False(t, ok)
			assert.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		for range 50 {
			wg.Go(func() {
				_, ok, err := tokens.Authenticate(withToken(t.Context(), "good"))
				assert.True(t, ok)
				assert.NoError(t, err)
			})
		}
		time.Sleep(time.Second)
		leave()
		wg.Wait()
		assert.Equal(t, 1, rev.count("good"))

		alone, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			_, ok, _ := tokens.Authenticate(withToken(alone, "other"))
			assert.False(t, ok)
		})
		synctest.Wait()
		leave()
		wg.Wait()
		synctest.Wait() // a review that went on would leave a goroutine in the bubble
		_, _, err := tokens.Authenticate(withToken(t.Context(), "other"))
		assert.ErrorIs(t, err, errTokenRefused)
		assert.Equal(t, 2, rev.count("other"))
	})
}

// TestReviewsEnd: an API server that hangs costs a request 30 s, and no more than maxReviews
// questions are open at a time.
func TestReviewsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rev := &reviewer{delay: time.Hour}
		tokens := Tokens(rev, TokenOptions{})
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 3 * maxReviews {
			wg.Go(func() {
				_, ok, err := tokens.Authenticate(withToken(t.Context(), strings.Repeat("x", i+1)))
				assert.False(t, ok)
				assert.ErrorIs(t, err, errReviewTimeout)
			})
		}
		synctest.Wait()
		rev.mu.Lock()
		assert.Len(t, rev.asked, maxReviews)
		rev.mu.Unlock()
		wg.Wait()
		assert.Equal(t, reviewTimeout, time.Since(began))
	})
}

// TestAFloodOfBadTokensDisplacesNoGoodOne, and memory stays bounded.
func TestAFloodOfBadTokensDisplacesNoGoodOne(t *testing.T) {
	rev := &reviewer{answers: map[string]bool{"good": true}}
	tokens := Tokens(rev, TokenOptions{}).(tokens)
	_, ok, _ := tokens.Authenticate(withToken(t.Context(), "good"))
	require.True(t, ok)
	for i := range 2 * maxAnswers {
		_, ok, _ := tokens.Authenticate(withToken(t.Context(), "bad"+strings.Repeat("x", i%50)+time.Duration(i).String()))
		require.False(t, ok)
	}
	_, ok, _ = tokens.Authenticate(withToken(t.Context(), "good"))
	assert.True(t, ok)
	assert.Equal(t, 1, rev.count("good"))
	assert.Len(t, tokens.known.no.Keys(), maxAnswers)
	assert.Empty(t, tokens.known.mu.open)
}

func TestBearer(t *testing.T) {
	encode := func(token string) string {
		return tokenProtocol + base64.RawURLEncoding.EncodeToString([]byte(token))
	}
	for _, tc := range []struct {
		name, authorization string
		protocols           []string
		token               string
		err                 error
		left                string // of the protocols
	}{
		{name: "none"},
		{name: "header", authorization: "Bearer abc", token: "abc"},
		{name: "other case and spaces", authorization: " bearer   abc ", token: "abc"},
		{name: "another scheme", authorization: "Basic abc"},
		{name: "only the scheme", authorization: "Bearer"},
		{name: "more words", authorization: "Bearer abc def", token: "abc"},
		{name: "protocol", protocols: []string{"v4.channel.k8s.io, " + encode("päss")}, token: "päss", left: "v4.channel.k8s.io"},
		{name: "two lines", protocols: []string{encode("abc"), "v5.channel.k8s.io,v4.channel.k8s.io"}, token: "abc", left: "v5.channel.k8s.io, v4.channel.k8s.io"},
		{name: "the header wins", authorization: "Bearer abc", protocols: []string{"v4.channel.k8s.io," + encode("def")}, token: "abc", left: "v4.channel.k8s.io"},
		{name: "two tokens", protocols: []string{encode("a"), encode("b"), "x"}, err: errTwoTokens, left: "x"},
		{name: "not base64", protocols: []string{tokenProtocol + "***", "x"}, err: errNotBase64, left: "x"},
		{name: "padded", protocols: []string{tokenProtocol + "YQ==", "x"}, err: errNotBase64, left: "x"},
		{name: "not UTF-8", protocols: []string{encode("\xff"), "x"}, err: errNotBase64, left: "x"},
		{name: "empty", protocols: []string{tokenProtocol, "x"}, err: errNotBase64, left: "x"},
		{name: "only a token", protocols: []string{encode("a")}, err: errOnlyTheToken},
		{name: "as large as allowed", authorization: "Bearer " + strings.Repeat("a", maxToken), token: strings.Repeat("a", maxToken)},
		{name: "base64 with a bad end", protocols: []string{tokenProtocol + "YWJjZGVm***", "x"}, err: errNotBase64, left: "x"},
		{name: "empty words", protocols: []string{"x,, ," + encode("abc")}, token: "abc", left: "x"},
		{name: "too large", authorization: "Bearer " + strings.Repeat("a", maxToken+1), err: errTokenTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _ := http.NewRequest("GET", "http://node/pods", nil)
			if tc.authorization != "" {
				r.Header.Set("Authorization", tc.authorization)
			}
			for _, p := range tc.protocols {
				r.Header.Add(protocolHeader, p)
				r.Header.Set("Connection", "keep-alive, Upgrade")
				r.Header.Set("Upgrade", "WebSocket")
			}
			before := r.Header.Clone()
			token, err := bearer(r.Header)
			assert.Equal(t, tc.token, token)
			assert.ErrorIs(t, err, tc.err)
			clean := withoutCredentials(r)
			assert.Equal(t, tc.left, clean.Header.Get(protocolHeader))
			assert.Empty(t, clean.Header.Get("Authorization"))
			assert.Equal(t, before, r.Header, "the request of the http.Server stays")
			for _, missing := range []string{"Connection", "Upgrade"} {
				plain := r.Header.Clone()
				plain.Del(missing)
				if tc.authorization == "" {
					token, err = bearer(plain)
					assert.Empty(t, token, "no WebSocket")
					assert.NoError(t, err)
				}
			}
		})
	}
}

// A request without credentials reaches the handler as it came, and no header is added to any.
func TestRequestsWithoutCredentialsAreNotChanged(t *testing.T) {
	r, err := http.NewRequest("GET", "http://node/exec", nil)
	require.NoError(t, err)
	assert.Same(t, r, withoutCredentials(r))
	r.Header.Set("Authorization", "Basic abc")
	assert.Empty(t, withoutCredentials(r).Header)
	r.Header.Del("Authorization")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Connection", "Upgrade")
	token, err := bearer(r.Header)
	assert.Empty(t, token)
	assert.NoError(t, err, "a WebSocket without protocols")
	r.Header.Set(protocolHeader, "v4.channel.k8s.io")
	assert.Same(t, r, withoutCredentials(r))
}
