// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package nodeserver_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

// apiServer is a transport that answers the n-th request, counted from 1.
type apiServer struct {
	answer   func(n int, r *http.Request, body string) (int, string, http.Header)
	requests []string
}

// hang is the code of an answer that does not come.
const hang = -1

// broken is the code of a connection that fails.
const broken = -2

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.requests = append(s.requests, r.Method+" "+r.URL.Path+" "+string(body))
	code, text, header := s.answer(len(s.requests), r, string(body))
	switch code {
	case hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case broken:
		return nil, io.ErrUnexpectedEOF
	}
	if header == nil {
		header = http.Header{"Content-Type": {"application/json"}}
	}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

func newReviews(t *testing.T, s *apiServer) *nodeserver.Reviews {
	t.Helper()
	reviews, err := nodeserver.NewReviews(&rest.Config{Host: "http://api", Transport: s, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	require.NoError(t, err)
	return reviews
}

func always(code int, text string) func(int, *http.Request, string) (int, string, http.Header) {
	return func(int, *http.Request, string) (int, string, http.Header) { return code, text, nil }
}

const (
	secret   = "s3cr3t-token"
	accepted = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"bob","uid":"7","groups":["g"],"extra":{"k":["v"]}}}}`
	invalid  = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":false,"error":"invalid bearer token"}}`
)

// TestTokenReviewsOfHostileServers: whatever the API server answers, a request gets a decision within
// 30 s, and no error text contains the token.
func TestTokenReviewsOfHostileServers(t *testing.T) {
	status := func(code, text string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + text + `","message":"` + secret + `","code":` + code + `}`
	}
	for _, tc := range []struct {
		name     string
		answer   func(int, *http.Request, string) (int, string, http.Header)
		ok       bool
		refused  bool // told apart from a failure: remembered
		requests int
	}{
		{name: "accepted", answer: always(201, accepted), ok: true, requests: 1},
		{name: "invalid", answer: always(201, invalid), refused: true, requests: 1},
		{name: "both", answer: always(201, strings.Replace(accepted, `"authenticated":true`, `"authenticated":true,"error":"no"`, 1)), requests: 1},
		{name: "nobody", answer: always(201, strings.Replace(accepted, "bob", "", 1)), requests: 1},
		{name: "the question", answer: func(_ int, _ *http.Request, body string) (int, string, http.Header) { return 201, body, nil }, refused: true, requests: 1},
		{name: "another kind", answer: always(201, `{"kind":"Pod","apiVersion":"v1"}`), refused: true, requests: 1},
		{name: "HTML", answer: always(200, "<html>"+secret), requests: 1},
		{name: "forbidden", answer: always(403, status("403", "Forbidden")), requests: 1},
		{name: "unauthorized", answer: always(401, status("401", "Unauthorized")), requests: 1},
		{name: "500 for ever", answer: always(500, status("500", "InternalError")), requests: 5},
		{name: "429 for ever", answer: always(429, status("429", "TooManyRequests")), requests: 5},
		{name: "429 with an absurd Retry-After", answer: func(int, *http.Request, string) (int, string, http.Header) {
			return 429, "", http.Header{"Retry-After": {"86400"}}
		}, requests: 3},
		{name: "broken for ever", answer: always(broken, ""), requests: 5},
		{name: "hangs", answer: always(hang, ""), requests: 3},
		{name: "busy at first", answer: func(n int, _ *http.Request, _ string) (int, string, http.Header) {
			return []int{500, 429, broken, 201}[n-1], accepted, nil
		}, ok: true, requests: 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{answer: tc.answer}
				tokens := nodeserver.Tokens(newReviews(t, server), nodeserver.TokenOptions{})
				ask := func() (nodeserver.User, bool, error) {
					r, err := http.NewRequestWithContext(t.Context(), "GET", "http://node/pods", nil)
					require.NoError(t, err)
					r.Header.Set("Authorization", "Bearer "+secret)
					return tokens.Authenticate(r)
				}
				began := time.Now()
				user, ok, err := ask()
				assert.Equal(t, tc.ok, ok)
				assert.Len(t, server.requests, tc.requests)
				assert.LessOrEqual(t, time.Since(began), 30*time.Second)
				if tc.ok {
					require.NoError(t, err)
					assert.Equal(t, nodeserver.User{Name: "bob", UID: "7", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}, user)
				} else {
					require.Error(t, err)
					assert.Zero(t, user)
				}
				assert.NotContains(t, errText(err), secret)
				_, _, _ = ask()
				assert.Equal(t, tc.ok || tc.refused, len(server.requests) == tc.requests, "decisions are remembered, failures are not")
				synctest.Wait()
			})
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	if inner := errors.Unwrap(err); inner != nil {
		return err.Error() + " " + errText(inner)
	}
	return err.Error()
}

// Upstream: the kubelet does not remember that a token is invalid if the API server says so in
// status.error, and the API server always does. Each request with an invalid token costs a
// TokenReview.
func TestInvalidTokensAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: always(201, invalid)}
		tokens := nodeserver.Tokens(newReviews(t, server), nodeserver.TokenOptions{})
		for range 1000 {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://node/pods", nil)
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer "+secret)
			_, ok, err := tokens.Authenticate(r)
			require.False(t, ok)
			require.Error(t, err)
		}
		assert.Len(t, server.requests, 1)
	})
}

func TestAccessReviewsOfHostileServers(t *testing.T) {
	said := func(status string) string {
		return `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{},"status":` + status + `}`
	}
	for _, tc := range []struct {
		name     string
		answer   func(int, *http.Request, string) (int, string, http.Header)
		allowed  bool
		failed   bool
		requests int
	}{
		{name: "allowed", answer: always(201, said(`{"allowed":true}`)), allowed: true, requests: 1},
		{name: "no opinion", answer: always(201, said(`{"allowed":false,"reason":"none"}`)), requests: 1},
		{name: "denied", answer: always(201, said(`{"allowed":false,"denied":true}`)), requests: 1},
		{name: "evaluation error", answer: always(201, said(`{"allowed":false,"evaluationError":"role not found"}`)), requests: 1},
		{name: "both", answer: always(201, said(`{"allowed":true,"denied":true}`)), failed: true, requests: 1},
		{name: "500 for ever", answer: always(500, ""), failed: true, requests: 5},
		{name: "unprocessable", answer: always(422, ""), failed: true, requests: 1},
		{name: "hangs", answer: always(hang, ""), failed: true, requests: 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{answer: tc.answer}
				access := nodeserver.Access(newReviews(t, server), nodeserver.AccessOptions{})
				asked := nodeserver.Attributes{Verb: "get", Subresource: "stats", Node: "n", User: nodeserver.User{Name: "bob"}}
				began := time.Now()
				allowed, err := access.Authorize(t.Context(), asked)
				assert.Equal(t, tc.allowed, allowed)
				assert.Equal(t, tc.failed, err != nil, "%v", err)
				assert.Len(t, server.requests, tc.requests)
				assert.LessOrEqual(t, time.Since(began), 30*time.Second)
				_, _ = access.Authorize(t.Context(), asked)
				assert.Equal(t, !tc.failed, len(server.requests) == tc.requests, "decisions are remembered, failures are not")
			})
		})
	}
}

// TestReviewsAsTheAPIServerExpectsThem checks the objects that are sent: v1, with kind.
func TestReviewsAsTheAPIServerExpectsThem(t *testing.T) {
	server := &apiServer{answer: always(201, `{}`)}
	reviews := newReviews(t, server)
	_, _, _ = reviews.ReviewToken(t.Context(), secret)
	_, _ = reviews.ReviewAccess(t.Context(), nodeserver.Attributes{
		User: nodeserver.User{Name: "bob", UID: "7", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}},
		Verb: "create", Subresource: "proxy", Node: "n",
	})
	require.Len(t, server.requests, 2)
	path, body, _ := strings.Cut(strings.TrimPrefix(server.requests[0], "POST "), " ")
	assert.Equal(t, "/apis/authentication.k8s.io/v1/tokenreviews", path)
	var token authenticationv1.TokenReview
	require.NoError(t, json.Unmarshal([]byte(body), &token))
	assert.Equal(t, "TokenReview", token.Kind)
	assert.Equal(t, "authentication.k8s.io/v1", token.APIVersion)
	assert.Equal(t, authenticationv1.TokenReviewSpec{Token: secret}, token.Spec)
	path, body, _ = strings.Cut(strings.TrimPrefix(server.requests[1], "POST "), " ")
	assert.Equal(t, "/apis/authorization.k8s.io/v1/subjectaccessreviews", path)
	var access authorizationv1.SubjectAccessReview
	require.NoError(t, json.Unmarshal([]byte(body), &access))
	assert.Equal(t, "SubjectAccessReview", access.Kind)
	assert.Equal(t, authorizationv1.SubjectAccessReviewSpec{
		User: "bob", UID: "7", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Version: "v1", Resource: "nodes", Subresource: "proxy", Name: "n"},
	}, access.Spec)
}
