// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Defaults of the options.
const (
	DefaultTokenTTL = 2 * time.Minute  // TokenOptions.TTL
	DefaultAllowTTL = 5 * time.Minute  // AccessOptions.AllowTTL
	DefaultDenyTTL  = 30 * time.Second // AccessOptions.DenyTTL
)

// badTokenTTL is how long a token stays refused without asking again. A token may become valid: the
// API server may not know a new service account yet.
const badTokenTTL = 10 * time.Second

// TokenReviewer checks bearer tokens. Reviews is the implementation on client-go.
type TokenReviewer interface {
	// ReviewToken returns the user, and true if the token is accepted. An error means that the token
	// could not be checked. Errors do not contain the token. ReviewToken returns soon after ctx ends.
	ReviewToken(ctx context.Context, token string) (User, bool, error)
}

// TokenOptions configure Tokens.
type TokenOptions struct {
	// TTL is how long an accepted token is accepted without asking again. Defaults to
	// DefaultTokenTTL.
	TTL time.Duration
}

// Tokens returns an Authenticator for the bearer tokens of requests. The same token is checked at most
// once at a time. A refused token is not checked again for ten seconds. Tokens are not kept; the
// Authenticator identifies them by a hash with a random key.
func Tokens(reviewer TokenReviewer, opts TokenOptions) Authenticator {
	ttl := cmp.Or(opts.TTL, DefaultTokenTTL)
	t := tokens{reviewer: reviewer, known: newAnswers(ttl, min(ttl, badTokenTTL)), key: make([]byte, sha256.Size)}
	_, _ = rand.Read(t.key) // never fails
	return t
}

type tokens struct {
	reviewer TokenReviewer
	known    *answers
	key      []byte
}

var (
	errTokenRefused = errors.New("token: the API server does not accept it")
	errNoUserName   = errors.New("token: the API server accepts it and names no user")
)

// Authenticate implements Authenticator.
func (t tokens) Authenticate(r *http.Request) (User, bool, error) {
	token, err := bearer(r.Header)
	if token == "" || err != nil {
		return User{}, false, err
	}
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(token))
	said, err := t.known.ask(r.Context(), digest(mac.Sum(nil)), func(ctx context.Context) (answer, error) {
		user, ok, err := t.reviewer.ReviewToken(ctx, token)
		if err == nil && ok && user.Name == "" {
			err = errNoUserName
		}
		return answer{user: user, yes: ok}, err
	})
	switch {
	case err != nil:
		return User{}, false, err
	case !said.yes:
		return User{}, false, errTokenRefused
	}
	return said.user, true, nil
}

// AccessReviewer decides on questions. Reviews is the implementation on client-go.
type AccessReviewer interface {
	// ReviewAccess returns whether the request is allowed. An error means that there is no decision.
	// ReviewAccess returns soon after ctx ends.
	ReviewAccess(context.Context, Attributes) (bool, error)
}

// AccessOptions configure Access.
type AccessOptions struct {
	// AllowTTL and DenyTTL are how long a decision holds without asking again. They default to
	// DefaultAllowTTL and DefaultDenyTTL.
	AllowTTL, DenyTTL time.Duration
}

// Access returns an Authorizer that asks a reviewer, and remembers the decisions. The same question is
// asked at most once at a time.
func Access(reviewer AccessReviewer, opts AccessOptions) Authorizer {
	return access{reviewer, newAnswers(cmp.Or(opts.AllowTTL, DefaultAllowTTL), cmp.Or(opts.DenyTTL, DefaultDenyTTL))}
}

type access struct {
	reviewer AccessReviewer
	known    *answers
}

// Authorize implements Authorizer.
func (a access) Authorize(ctx context.Context, attributes Attributes) (bool, error) {
	question, err := json.Marshal(attributes) // maps are encoded in the order of their keys
	if err != nil {
		return false, err
	}
	said, err := a.known.ask(ctx, sha256.Sum256(question), func(ctx context.Context) (answer, error) {
		allowed, err := a.reviewer.ReviewAccess(ctx, attributes)
		return answer{yes: allowed}, err
	})
	return said.yes && err == nil, err
}
