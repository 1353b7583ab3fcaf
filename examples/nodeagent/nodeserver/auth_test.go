// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

// authenticator accepts requests with the header "User", and refuses those with the header "Bad".
type authenticator struct{}

func (authenticator) Authenticate(r *http.Request) (nodeserver.User, bool, error) {
	if r.Header.Get("Bad") != "" {
		return nodeserver.User{}, false, errors.New("bad credentials")
	}
	user := nodeserver.User{Name: r.Header.Get("User"), Groups: r.Header.Values("Group")}
	return user, user.Name != "", nil
}

// rules allow a subresource, or fail with an error.
type rules map[string]any

func (r rules) Authorize(_ context.Context, a nodeserver.Attributes) (bool, error) {
	switch rule := r[a.Subresource].(type) {
	case error:
		return false, rule
	case func(nodeserver.Attributes):
		rule(a)
		return true, nil
	}
	return r[a.Subresource] == true, nil
}

// guarded sends a request through a guard. The handler behind the guard answers with "inside".
func guarded(t *testing.T, opts nodeserver.GuardOptions, method, path string, header ...string) (int, string) {
	t.Helper()
	opts.Node = "n"
	guard, err := nodeserver.NewGuard(opts)
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte("inside"))
	})).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestGuardAnswers(t *testing.T) {
	down := errors.New("down")
	for _, tc := range []struct {
		name         string
		rules        rules
		method, path string
		header       []string
		anonymous    bool
		code         int
		body         string
	}{
		{name: "no credentials", path: "/pods", rules: rules{"pods": true}, code: 401, body: "Unauthorized"},
		{name: "bad credentials", path: "/pods", rules: rules{"pods": true}, header: []string{"Bad", "1"}, code: 401, body: "Unauthorized"},
		{name: "unknown path", path: "/junk", rules: rules{"proxy": true}, code: 401, body: "Unauthorized"},
		{name: "anonymous", path: "/pods", rules: rules{"pods": true}, anonymous: true, code: 200, body: "inside"},
		{name: "bad credentials are not anonymous", path: "/pods", rules: rules{"pods": true}, header: []string{"Bad", "1"}, anonymous: true, code: 401, body: "Unauthorized"},
		{name: "anonymous without permission", path: "/healthz", anonymous: true, code: 403,
			body: "Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource(s)=[healthz proxy])\n"},
		{name: "fine-grained", path: "/pods", rules: rules{"pods": true, "proxy": down}, header: []string{"User", "u"}, code: 200, body: "inside"},
		{name: "by proxy", path: "/pods", rules: rules{"proxy": true}, header: []string{"User", "u"}, code: 200, body: "inside"},
		{name: "forbidden", path: "/pods", header: []string{"User", "u"}, code: 403,
			body: "Forbidden (user=u, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"},
		{name: "forbidden command", path: "/exec/ns/p/c", header: []string{"User", "u"}, code: 403,
			body: "Forbidden (user=u, verb=create, resource=nodes, subresource(s)=[proxy])\n"},
		{name: "no verb", method: "HEAD", path: "/metrics", header: []string{"User", "u"}, code: 403,
			body: "Forbidden (user=u, verb=, resource=nodes, subresource(s)=[metrics])\n"},
		{name: "first question fails", path: "/pods", rules: rules{"pods": down, "proxy": true}, header: []string{"User", "u"}, code: 500,
			body: "Authorization error (user=u, verb=get, resource=nodes, subresource=pods)"},
		{name: "second question fails", path: "/pods", rules: rules{"proxy": down}, header: []string{"User", "u"}, code: 500,
			body: "Authorization error (user=u, verb=get, resource=nodes, subresource=proxy)"},
		{name: "allowed, and gone", path: "/pods", rules: rules{"pods": true}, header: []string{"User", "u", "Authorization", "Basic x"}, code: 200, body: "inside"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.method == "" {
				tc.method = http.MethodGet
			}
			opts := nodeserver.GuardOptions{Authenticators: []nodeserver.Authenticator{authenticator{}}, Anonymous: tc.anonymous, Authorizer: tc.rules}
			code, body := guarded(t, opts, tc.method, tc.path, tc.header...)
			assert.Equal(t, tc.code, code)
			assert.Equal(t, tc.body, body)
		})
	}
}

// other is an authenticator that knows every request.
type other struct{ user nodeserver.User }

func (o other) Authenticate(*http.Request) (nodeserver.User, bool, error) { return o.user, true, nil }

func TestTheNextAuthenticatorIsAsked(t *testing.T) {
	var asked []nodeserver.Attributes
	note := rules{"stats": func(a nodeserver.Attributes) { asked = append(asked, a) }}
	both := []nodeserver.Authenticator{authenticator{}, other{nodeserver.User{Name: "second", Groups: []string{"system:unauthenticated"}}}}
	opts := nodeserver.GuardOptions{Authenticators: both, Authorizer: note}
	for _, header := range [][]string{{"Bad", "1"}, nil, {"User", "first", "Group", "g"}, {"User", "first", "Group", "system:authenticated"}} {
		code, _ := guarded(t, opts, "POST", "/stats/summary", header...)
		assert.Equal(t, http.StatusOK, code)
	}
	want := func(name string, groups ...string) nodeserver.Attributes {
		return nodeserver.Attributes{User: nodeserver.User{Name: name, Groups: groups}, Verb: "create", Subresource: "stats", Node: "n"}
	}
	assert.Equal(t, []nodeserver.Attributes{
		want("second", "system:unauthenticated"), want("second", "system:unauthenticated"),
		want("first", "g", "system:authenticated"), want("first", "system:authenticated"),
	}, asked)
}

func TestNewGuardRefusesWrongOptions(t *testing.T) {
	some := []nodeserver.Authenticator{authenticator{}}
	for want, opts := range map[string]nodeserver.GuardOptions{
		"Node":           {Authenticators: some, Authorizer: rules{}},
		"Authorizer":     {Node: "n", Authenticators: some},
		"Authenticators": {Node: "n", Authorizer: rules{}},
		"nil entry":      {Node: "n", Authorizer: rules{}, Authenticators: []nodeserver.Authenticator{nil}},
	} {
		_, err := nodeserver.NewGuard(opts)
		assert.ErrorContains(t, err, want)
	}
}
