// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// TokensOptions are the options of NewTokens.
type TokensOptions struct {
	// Client creates tokens, for example FromCore(CoreV1()) with client-go. Required.
	Client TokensClient
}

// Tokens requests a new token from the API server at each call. It implements
// projected.TokenSource; put a projected.TokenCache before it.
type Tokens struct{ options TokensOptions }

var _ projected.TokenSource = (*Tokens)(nil)

// NewTokens returns a Tokens. The error names the invalid option.
func NewTokens(o TokensOptions) (*Tokens, error) {
	switch {
	case o.Client == nil:
		return nil, fmt.Errorf("%w: TokensOptions.Client is required", ErrOptions)
	}
	return &Tokens{options: o}, nil
}

// Token returns a new token, valid only while the pod exists. The error is an *Error, or the cause
// of ctx. Errors never contain a token.
func (t *Tokens) Token(ctx context.Context, r projected.TokenRequest) (projected.Token, error) {
	made, err := request(ctx, verbCreate, func(ctx context.Context) (*authenticationv1.TokenRequest, error) {
		return t.options.Client.ServiceAccounts(r.Namespace).CreateToken(ctx, r.ServiceAccount, tokenRequest(r), metav1.CreateOptions{})
	})
	if err != nil {
		return projected.Token{}, err
	}
	if made.Status.Token == "" || made.Status.ExpirationTimestamp.IsZero() {
		return projected.Token{}, &Error{Ref: objects.Ref{}, Verb: verbCreate, Reason: clientkit.BadAnswer, Err: clientkit.ErrBadAnswer}
	}
	return projected.Token{Value: made.Status.Token, Expires: made.Status.ExpirationTimestamp.Time}, nil
}

func tokenRequest(r projected.TokenRequest) *authenticationv1.TokenRequest {
	spec := authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: r.Pod, UID: r.PodUID},
	}
	if r.Audience != "" {
		spec.Audiences = []string{r.Audience}
	}
	if r.ExpirationSeconds > 0 {
		spec.ExpirationSeconds = &r.ExpirationSeconds
	}
	return &authenticationv1.TokenRequest{Spec: spec}
}
