// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/runtime"
)

// The words of cri-api's pkg/errors before the message become the reason.
func TestPullErrors(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	for _, tt := range []struct {
		code    codes.Code
		message string
		want    string
		is      error
	}{
		{codes.Unknown, "RegistryUnavailable: dial tcp: refused", "RegistryUnavailable: dial tcp: refused", runtime.ErrRegistryUnavailable},
		{codes.Unavailable, "RegistryUnavailable", "RegistryUnavailable: ", runtime.ErrRegistryUnavailable},
		{codes.Unknown, "SignatureValidationFailed: no key", "SignatureValidationFailed: no key", runtime.ErrSignatureValidationFailed},
		{codes.Unknown, "said RegistryUnavailable", "said RegistryUnavailable", nil},
		{codes.NotFound, "a: not found", "a: not found", nil},
		{codes.FailedPrecondition, "unexpected commit digest", "unexpected commit digest", nil},
		{codes.Unavailable, "down", "the container runtime cannot be reached: down", ErrUnavailable},
		{codes.Unimplemented, "never heard of it", "unsupported by this runtime: never heard of it", runtime.ErrUnsupported},
	} {
		s.fail("PullImage", tt.code, tt.message)
		_, err := rt.PullImage(t.Context(), "a:1", nil)
		require.EqualError(t, err, tt.want)
		for _, kind := range []error{runtime.ErrRegistryUnavailable, runtime.ErrSignatureValidationFailed, runtime.ErrNotFound, ErrUnavailable, runtime.ErrUnsupported} {
			assert.Equal(t, kind == tt.is, errors.Is(err, kind), "%s: %v", tt.message, kind)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.inTheWay(func(ctx context.Context, call string) error {
		cancel()
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	})
	_, err := rt.PullImage(ctx, "a:1", nil)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestWithoutAccess(t *testing.T) {
	for message, want := range map[string]string{
		"":           "",
		"all is bad": "all is bad",
		`Get "http://r:5000/v2/a?X-Sig=abc&b=c": EOF`: `Get "http://r:5000/v2/a?(hidden)": EOF`,
		"GET request to https://r/v2/?s=x: 403":       "GET request to https://r/v2/?(hidden): 403",
		"(see https://r/?a=b), and http://r/c?d.":     "(see https://r/?(hidden)), and http://r/c?(hidden).",
		"https://user:pw@r/v2/ said no":               "https://(hidden)@r/v2/ said no",
		"http://r/a@sha256:00 is not there":           "http://r/a@sha256:00 is not there",
		"why? because":                                "why? because",
	} {
		assert.Equal(t, want, withoutAccess(message))
	}
}

// FuzzWithoutAccess puts a secret before the @ and behind the ? of an address.
func FuzzWithoutAccess(f *testing.F) {
	f.Add("GET ", ": 403", "hunter2")
	f.Fuzz(func(t *testing.T, before, after, secret string) {
		out := withoutAccess(before + " https://user:" + secret + "@r/v2/?s=" + secret + " " + after)
		if len(secret) > len(hidden) && !strings.ContainsAny(secret, " \t\r\n\f\v/\"'@?()") && !strings.Contains(before+after, secret) {
			assert.NotContains(t, out, secret)
		}
	})
}
