// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// Authenticator finds out which user sent a request. It may be called by many goroutines at the same
// time.
type Authenticator interface {
	// Authenticate returns the user, and true. It returns false without an error if the request has
	// no credentials of the Authenticator's kind. An error means that the credentials are not
	// accepted, or could not be checked; the next Authenticator is asked. Errors do not contain the
	// credentials.
	Authenticate(*http.Request) (User, bool, error)
}

// Authorizer decides on a question. It may be called by many goroutines at the same time.
type Authorizer interface {
	// Authorize returns whether the request is allowed. An error means that there is no decision;
	// the request is refused.
	Authorize(context.Context, Attributes) (bool, error)
}

// AlwaysAllow is an Authorizer that allows every request of an authenticated user.
type AlwaysAllow struct{}

// Authorize implements Authorizer.
func (AlwaysAllow) Authorize(context.Context, Attributes) (bool, error) { return true, nil }

// GuardOptions configure NewGuard.
type GuardOptions struct {
	// Node is the name of the node, for the questions to the Authorizer. Required.
	Node string
	// Authenticators are asked in order until one returns a user. Required, unless Anonymous is set.
	Authenticators []Authenticator
	// Anonymous lets requests without any credentials pass as the user "system:anonymous" of the
	// group "system:unauthenticated". A request with credentials that are not accepted is refused
	// all the same.
	Anonymous bool
	// Authorizer decides on every request of a user. Required.
	Authorizer Authorizer
	// Logger receives the reasons of refusals, at debug level. Defaults to none.
	Logger *zap.Logger
}

// Group and user names that the API server gives to requests.
const (
	anonymousUser        = "system:anonymous"
	unauthenticatedGroup = "system:unauthenticated"
	authenticatedGroup   = "system:authenticated"
)

// NewGuard returns a function that wraps a handler with authentication and authorization, for
// Options.Guard. Every path is guarded, including unknown paths. A refused request is answered with
// the texts of the kubelet 1.36: 401 without an accepted user, 403 without permission, 500 without a
// decision. The wrapped handler receives requests without credentials.
func NewGuard(opts GuardOptions) (func(http.Handler) http.Handler, error) {
	switch {
	case opts.Node == "":
		return nil, errors.New("nodeserver: GuardOptions.Node is required")
	case opts.Authorizer == nil:
		return nil, errors.New("nodeserver: GuardOptions.Authorizer is required")
	case len(opts.Authenticators) == 0 && !opts.Anonymous:
		return nil, errors.New("nodeserver: GuardOptions.Authenticators is empty and Anonymous is not set: every request would be refused")
	case slices.Contains(opts.Authenticators, nil):
		return nil, errors.New("nodeserver: GuardOptions.Authenticators has a nil entry")
	}
	opts.Logger = cmp.Or(opts.Logger, zap.NewNop())
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if opts.admits(w, r) {
				next.ServeHTTP(w, withoutCredentials(r))
			}
		})
	}, nil
}

// admits reports whether a request may pass. Otherwise it has written the answer.
func (o *GuardOptions) admits(w http.ResponseWriter, r *http.Request) bool {
	user, ok := o.authenticate(r)
	if !ok {
		reply(w, http.StatusUnauthorized, "Unauthorized")
		return false
	}
	verb, subresources := attributesOf(r.Method, r.URL.Path)
	for _, sub := range subresources {
		allowed, err := o.Authorizer.Authorize(r.Context(), Attributes{User: user, Verb: verb, Subresource: sub, Node: o.Node})
		if err != nil {
			o.Logger.Debug("a request could not be authorized", zap.String("user", user.Name), zap.Error(err))
			reply(w, http.StatusInternalServerError, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", user.Name, verb, sub))
			return false
		}
		if allowed {
			return true
		}
	}
	reply(w, http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=[%s])\n", user.Name, verb, strings.Join(subresources, " ")))
	return false
}

// authenticate returns the user of a request, with the group of all authenticated users.
func (o *GuardOptions) authenticate(r *http.Request) (User, bool) {
	var failed []error
	for _, a := range o.Authenticators {
		user, ok, err := a.Authenticate(r)
		if ok && err == nil {
			return inGroup(user), true
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == 0 && o.Anonymous {
		return User{Name: anonymousUser, Groups: []string{unauthenticatedGroup}}, true
	}
	if len(failed) > 0 {
		o.Logger.Debug("a request could not be authenticated", zap.Error(errors.Join(failed...)))
	}
	return User{}, false
}

// inGroup adds the group of all authenticated users, unless the user is in that group or in the
// group of anonymous requests.
func inGroup(user User) User {
	if !slices.Contains(user.Groups, authenticatedGroup) && !slices.Contains(user.Groups, unauthenticatedGroup) {
		user.Groups = append(slices.Clip(user.Groups), authenticatedGroup)
	}
	return user
}
