// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, method, target string
		want                 Request
	}{
		{"list", "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1",
			Request{Verb: "list", Resource: "pods", Query: "fieldSelector=spec.nodeName%3Dn1"}},
		{"watch", "GET", "/api/v1/pods?watch=true&resourceVersion=1", Request{Verb: "watch", Resource: "pods", Query: "watch=true&resourceVersion=1"}},
		{"watch with a number", "GET", "/api/v1/pods?watch=1", Request{Verb: "watch", Resource: "pods", Query: "watch=1"}},
		{"not a watch", "GET", "/api/v1/pods?watch=false", Request{Verb: "list", Resource: "pods", Query: "watch=false"}},
		{"list in a namespace", "GET", "/api/v1/namespaces/a/pods", Request{Verb: "list", Resource: "pods", Namespace: "a"}},
		{"get", "GET", "/api/v1/namespaces/a/pods/p", Request{Verb: "get", Resource: "pods", Namespace: "a", Name: "p"}},
		{"patch of a status", "PATCH", "/api/v1/namespaces/a/pods/p/status",
			Request{Verb: "patch", Resource: "pods", Namespace: "a", Name: "p", Subresource: "status"}},
		{"create", "POST", "/api/v1/namespaces/a/pods", Request{Verb: "create", Resource: "pods", Namespace: "a"}},
		{"bind", "POST", "/api/v1/namespaces/a/pods/p/binding",
			Request{Verb: "create", Resource: "pods", Namespace: "a", Name: "p", Subresource: "binding"}},
		{"update", "PUT", "/api/v1/nodes/n", Request{Verb: "update", Resource: "nodes", Name: "n"}},
		{"delete", "DELETE", "/api/v1/namespaces/a/pods/p", Request{Verb: "delete", Resource: "pods", Namespace: "a", Name: "p"}},
		{"delete all", "DELETE", "/api/v1/namespaces/a/pods", Request{Verb: "deletecollection", Resource: "pods", Namespace: "a"}},
		{"group", "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
			Request{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease", Name: "n"}},
		{"namespaces", "GET", "/api/v1/namespaces", Request{Verb: "list", Resource: "namespaces"}},
		{"namespace", "GET", "/api/v1/namespaces/a", Request{Verb: "get", Resource: "namespaces", Name: "a"}},
		{"a namespace's own", "PUT", "/api/v1/namespaces/a/finalize",
			Request{Verb: "update", Resource: "namespaces", Name: "a", Subresource: "finalize"}},
		{"discovery", "GET", "/api/v1", Request{Verb: "get"}},
		{"discovery of a group", "GET", "/apis/apps/v1", Request{Verb: "get"}},
		{"health", "GET", "/readyz", Request{Verb: "get"}},
		{"an empty segment", "GET", "/api/v1/namespaces/a//x", Request{Verb: "get"}},
		{"root", "HEAD", "/", Request{Verb: "head"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.target, nil)
			r.Header.Set("User-Agent", "agent")
			tc.want.Path, tc.want.UserAgent = r.URL.Path, "agent"
			assert.Equal(t, tc.want, parse(r))
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("GET", "/api/v1/namespaces/a/pods/p/status", "watch=1")
	f.Add("DELETE", "/apis//v1//", "%")
	f.Add("GET", "/apis/g/v1/namespaces/0//", "")
	f.Add("GET", "/api/v1/namespaces/0//x", "")
	f.Fuzz(func(t *testing.T, method, path, query string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Method, r.URL.Path, r.URL.RawQuery = method, path, query
		got := parse(r)
		assert.Equal(t, path, got.Path)
		if got.Resource == "" {
			assert.Empty(t, got.Namespace+got.Name+got.Subresource)
		}
	})
}

func TestTake(t *testing.T) {
	named := func(name string) func(Request) bool { return func(r Request) bool { return r.Name == name } }
	tests := []struct {
		name  string
		rules []Rule
		asked string   // names, one letter each
		want  []string // the rules by their index that each gets
	}{
		{"none", nil, "a", []string{""}},
		{"all", []Rule{{Then: Cut}}, "ab", []string{"0", "0"}},
		{"the first end counts", []Rule{{Then: Cut}, {Then: Hang}}, "a", []string{"0"}},
		{"delays go on", []Rule{{Delay: 1}, {Delay: 2}, {Then: Hang}, {Delay: 3}}, "a", []string{"012"}},
		{"matched", []Rule{{Match: named("b"), Then: Cut}, {Delay: 1}}, "abc", []string{"1", "0", "1"}},
		{"spent", []Rule{{Times: 2, Then: Cut}, {Then: Hang}}, "aaa", []string{"0", "0", "1"}},
		{"spent by matches only", []Rule{{Match: named("b"), Times: 1, Then: Cut}}, "abb", []string{"", "0", ""}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var rs rules
			index := map[*injected]string{}
			for i, r := range tc.rules {
				require.NoError(t, r.validate())
				in := &injected{Rule: r}
				index[in] = string(rune('0' + i))
				rs = rs.with(in)
			}
			for i, name := range tc.asked {
				got := ""
				for _, r := range rs.take(Request{Name: string(name)}) {
					got += index[r]
				}
				assert.Equal(t, tc.want[i], got, "request %d", i)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		rule  Rule
		field string
	}{
		{Rule{}, ""},
		{Rule{Then: Answer, Code: 429, RetryAfter: time.Second, Times: 1, Delay: 1}, ""},
		{Rule{Times: -1}, "Times"},
		{Rule{Delay: -1}, "Delay"},
		{Rule{Then: Lose + 1}, "Then"},
		{Rule{Then: -1}, "Then"},
		{Rule{Then: Answer}, "Code"},
		{Rule{Then: Answer, Code: 200}, "Code"},
		{Rule{Code: 429}, "Code"},
		{Rule{Then: Cut, RetryAfter: time.Second}, "RetryAfter"},
		{Rule{Then: Answer, Code: 429, RetryAfter: time.Millisecond}, "RetryAfter"},
		{Rule{Then: Answer, Code: 429, RetryAfter: -time.Second}, "RetryAfter"},
	}
	for _, tc := range tests {
		if err := tc.rule.validate(); tc.field == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, tc.field, "%+v", tc.rule)
		}
	}
}
