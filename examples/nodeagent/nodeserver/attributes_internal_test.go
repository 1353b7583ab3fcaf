// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAttributes checks the questions for paths and methods.
func TestAttributes(t *testing.T) {
	for _, tc := range []struct{ method, path, verb, subresources string }{
		{"GET", "/pods", "get", "pods proxy"},
		{"GET", "/pods/", "get", "pods proxy"},
		{"GET", "/podsx", "get", "proxy"},
		{"GET", "/runningpods/", "get", "pods proxy"},
		{"GET", "/healthz", "get", "healthz proxy"},
		{"GET", "/healthz/syncloop", "get", "healthz proxy"},
		{"GET", "/configz", "get", "configz proxy"},
		{"GET", "/flagz", "get", "configz"},
		{"GET", "/statusz", "get", "statusz"},
		{"GET", "/stats/summary", "get", "stats"},
		{"POST", "/stats/summary", "create", "stats"},
		{"GET", "/metrics", "get", "metrics"},
		{"GET", "/metrics/cadvisor", "get", "metrics"},
		{"GET", "/logs/messages", "get", "log"},
		{"POST", "/checkpoint/ns/pod/c", "create", "checkpoint"},
		{"PUT", "/debug/flags/v", "update", "proxy"},
		{"PATCH", "/unknown", "patch", "proxy"},
		{"DELETE", "/", "delete", "proxy"},
		{"HEAD", "/pods", "", "pods proxy"},
		{"CONNECT", "/exec/ns/pod/c", "create", "proxy"},
		{"GET", "/containerLogs/ns/pod/c", "get", "proxy"},
		{"GET", "", "create", "proxy"},
		{"GET", "/pods/../exec/ns/pod/c", "create", "proxy"},
		{"GET", "//pods", "create", "proxy"},
	} {
		verb, subresources := attributesOf(tc.method, tc.path)
		assert.Equal(t, tc.verb, verb, tc.method+" "+tc.path)
		assert.Equal(t, tc.subresources, strings.Join(subresources, " "), tc.method+" "+tc.path)
	}
}

// Upstream (kubernetes/kubernetes#119640 and #136550): a WebSocket begins with GET, so that a user
// with "get nodes/proxy" could run commands.
func TestUpstream119640CommandsAskForCreate(t *testing.T) {
	for _, path := range []string{"/exec/ns/pod/c", "/attach/ns/pod/c", "/run/ns/pod/c", "/portForward/ns/pod", "/exec"} {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			verb, subresources := attributesOf(method, path)
			assert.Equal(t, "create", verb, method+" "+path)
			assert.Equal(t, []string{"proxy"}, subresources, method+" "+path)
		}
	}
}

// TestNoPathDeceivesTheGuard sends random paths with dots, slashes and escapes to a mux with the
// server's patterns. The endpoint that the mux chooses must be the endpoint that the guard has judged.
func TestNoPathDeceivesTheGuard(t *testing.T) {
	const strict = "create proxy"
	want := map[string]string{ // what must have been asked when a pattern's handler is called
		"/exec/{n}/{p}/{c}": strict, "/attach/{n}/{p}/{c}": strict, "/run/{n}/{p}/{c}": strict, "/portForward/{n}/{p}": strict,
		"/containerLogs/{n}/{p}/{c}": "get proxy", "/debug/pprof/": "get proxy",
		"/pods": "get pods proxy", "/stats/summary": "get stats", "/metrics": "get metrics", "/metrics/cadvisor": "get metrics",
		"/logs/": "get log", "/healthz": "get healthz proxy", "/healthz/{name}": "get healthz proxy", "/flagz": "get configz",
	}
	var called string
	mux := http.NewServeMux()
	for pattern := range want {
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) { called = pattern })
	}
	words := []string{"exec", "attach", "containerLogs", "pods", "metrics", "cadvisor", "logs", "stats", "summary", "healthz", "run", "%65xec", "..", ".", "%2e%2e", "", "n", "%2F", "%2f..%2fexec", "portForward", "a%00", "flagz", "debug", "pprof"}
	random := rand.New(rand.NewPCG(1, 2))
	reached := map[string]int{}
	for range 30_000 {
		target := ""
		for range 1 + random.IntN(5) {
			target += "/" + words[random.IntN(len(words))]
		}
		r, err := http.NewRequest("GET", "http://node"+target, nil)
		if err != nil {
			continue
		}
		if random.IntN(4) == 0 {
			r.Method = http.MethodConnect // whose paths a mux does not clean
		}
		called = ""
		mux.ServeHTTP(httptest.NewRecorder(), r)
		if called == "" {
			continue // redirected or not found
		}
		reached[called]++
		verb, subresources := attributesOf("GET", r.URL.Path)
		got := verb + " " + strings.Join(subresources, " ")
		// A guard that asks for more than the endpoint needs refuses too much, but lets nothing pass.
		stricter := got == strict || got == "get proxy" && want[called] != strict
		if got != want[called] && !stricter {
			t.Fatalf("%s %s is served by %s, but the guard asked %q", r.Method, target, called, got)
		}
	}
	assert.Len(t, reached, len(want), "every pattern must have been reached: %v", reached)
}
