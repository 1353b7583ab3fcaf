// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package nodeserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/internal/conceal"
	"github.com/keelson-dev/keelson/internal/kubeclient"
	"github.com/keelson-dev/keelson/internal/retry"
)

// Tries of a review. The last waits end before reviewTimeout if the API server answers.
const (
	reviewTries      = 5
	reviewTryTimeout = 10 * time.Second
	firstReviewWait  = 500 * time.Millisecond
	lastReviewWait   = 2 * time.Second
)

// Reviews sends TokenReviews and SubjectAccessReviews to an API server. It implements TokenReviewer
// and AccessReviewer. A review that fails because the server is busy or unreachable is tried five
// times.
type Reviews struct {
	tokens *kubeclient.TokenReviews
	access *kubeclient.SubjectAccessReviews
}

// NewReviews returns Reviews that use the server and the credentials of config. It sends no request.
func NewReviews(config *rest.Config) (*Reviews, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the callers bound the requests
	client, err := kubeclient.New(config)
	if err != nil {
		return nil, fmt.Errorf("token reviews and subject access reviews: %w", err)
	}
	return &Reviews{client.TokenReviews(), client.SubjectAccessReviews()}, nil
}

// errContradiction is returned for an answer that both grants and refuses.
var errContradiction = errors.New("the API server's answer contradicts itself")

// ReviewToken implements TokenReviewer. The API server reports an invalid token in status.error, so
// that field is a refusal and not an error.
func (r *Reviews) ReviewToken(ctx context.Context, token string) (user User, ok bool, err error) {
	err = tryReview(ctx, "review a token", func(ctx context.Context) error {
		asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		said, err := r.tokens.Create(ctx, asked, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if said.Status.Authenticated && said.Status.Error != "" {
			return errContradiction
		}
		from := said.Status.User
		user, ok = User{Name: from.Username, UID: from.UID, Groups: from.Groups}, said.Status.Authenticated
		for key, values := range from.Extra {
			if user.Extra == nil {
				user.Extra = map[string][]string{}
			}
			user.Extra[key] = values
		}
		return nil
	})
	if err != nil { // a proxy may repeat the request in its answer
		var hidden conceal.Values
		hidden.Secret(token)
		err = errors.New(hidden.Text(err.Error()))
	}
	return user, ok && err == nil, err
}

// ReviewAccess implements AccessReviewer.
func (r *Reviews) ReviewAccess(ctx context.Context, a Attributes) (allowed bool, err error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: a.User.Name, UID: a.User.UID, Groups: a.User.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.Verb, Version: "v1", Resource: "nodes", Subresource: a.Subresource, Name: a.Node,
		},
	}
	for key, values := range a.User.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	err = tryReview(ctx, "review access", func(ctx context.Context) error {
		said, err := r.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if said.Status.Allowed && said.Status.Denied {
			return errContradiction
		}
		allowed = said.Status.Allowed
		return nil
	})
	return allowed && err == nil, err
}

// tryReview calls do until it succeeds, fails for good, or has been tried often enough. The error does
// not repeat parts of the answer.
func tryReview(ctx context.Context, what string, do func(context.Context) error) error {
	for n := 1; ; n++ {
		err := tryOnce(ctx, do)
		if err == nil {
			return nil
		}
		again, err := judgeReview(err)
		if !again || n == reviewTries || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if retry.Sleep(ctx, retry.Backoff(n, firstReviewWait, lastReviewWait, rand.Float64())) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

func tryOnce(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reviewTryTimeout, clientkit.TimeoutError{After: reviewTryTimeout})
	defer cancel()
	return do(ctx)
}

// judgeReview reports whether another try may succeed, and returns the error without parts of an
// answer or a URL.
func judgeReview(err error) (again bool, plain error) {
	if errors.Is(err, errContradiction) {
		return false, err
	}
	reason, plain := clientkit.Judge(err)
	switch reason {
	case clientkit.TooManyRequests, clientkit.Timeout, clientkit.Unreachable:
		return true, plain
	case clientkit.Server:
		status, ok := errors.AsType[*apierrors.StatusError](plain)
		return ok && status.ErrStatus.Code >= 500, plain
	}
	return false, plain
}
