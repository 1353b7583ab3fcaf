// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/keelson-dev/keelson/internal/testport"
)

// onConfig starts an agent on processes, with a configuration file of these fields and a server that
// everybody may use. It returns a function for requests to the server.
func (s *station) onConfig(fields string) (get func(path string) (code int, body string)) {
	s.Helper()
	port := testport.Free(s.T)
	file := filepath.Join(s.dir, "config.yaml")
	require.NoError(s, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %d
healthzPort: 0
podLogsDir: logs
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
%s`, port, fields), 0o600))
	s.start("--config", file, "--container-runtime-endpoint", "process")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	s.Cleanup(client.CloseIdleConnections)
	return func(path string) (int, string) {
		s.Helper()
		r, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", port, path))
		require.NoError(s, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		require.NoError(s, err)
		return r.StatusCode, string(text)
	}
}

// Endpoints that the configuration file disables are not served, with the kubelet's answers.
func TestEndpointsThatTheConfigurationDisables(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		fields string
		want   map[string]string
	}{
		{"enableDebuggingHandlers: false\n", map[string]string{
			"/containerLogs/default/p/c": "405 Debug endpoints are disabled.", "/exec/default/p/c": "405 Debug endpoints are disabled.",
			"/logs/": "405 Debug endpoints are disabled.", "/runningpods/": "405 Debug endpoints are disabled.",
			"/configz": "404 404 page not found", "/healthz": "200 ok",
		}},
		{"enableProfilingHandler: false\n", map[string]string{
			"/debug/pprof/": "405 profiling endpoint is disabled.", "/debug/pprof/heap": "405 profiling endpoint is disabled.",
		}},
		{"enableDebugFlagsHandler: false\n", map[string]string{
			"/debug/flags/v": "405 flags endpoint is disabled.", "/logs/?query=a%20b": "200 <",
		}},
		{"enableSystemLogQuery: true\n", map[string]string{
			"/logs/?query=a%20b": `406 query: "a b" is no name of a service`, "/logs/?query=no-such-service": "404 neither", "/debug/flags/v": "405 Method Not Allowed",
		}},
		{"enableProfilingHandler: true\n", map[string]string{"/debug/pprof/cmdline": "200 " + os.Args[0]}},
		{"enableSystemLogHandler: false\n", map[string]string{
			"/logs/": "405 logs endpoint is disabled.", "/logs/dpkg.log": "405 logs endpoint is disabled.",
			"/containerLogs/default/p/c": `404 pod "p" does not exist`,
		}},
	} {
		s := newStation(t, backends["process"])
		get := s.onConfig(tc.fields)
		for path, want := range tc.want {
			code, body := get(path)
			body, _, _ = strings.Cut(strings.TrimSpace(body), "\x00")
			assert.True(t, strings.HasPrefix(fmt.Sprintf("%d %s", code, body), want), "%s: %d %s", path, code, body)
		}
	}
}

// A command without data ends after the time of the configuration file, on each backend.
func TestIdleSessionsOfAConfigurationFile(t *testing.T) {
	for _, name := range []string{"process", "containerd-hostnet"} {
		for _, protocol := range clients {
			t.Run(name+" "+protocol, func(t *testing.T) {
				s := newStation(t, backends[name])
				if name == "process" {
					s.backend.flags = func(*testing.T) []string { return []string{"--container-runtime-endpoint", "process"} }
				}
				port, file := testport.Free(t), filepath.Join(s.dir, "config.yaml")
				require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %d
healthzPort: 0
podLogsDir: logs
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
streamingConnectionIdleTimeout: 500ms
`, port), 0o600))
				s.start("--config", file)
				manifest, _ := s.service("web", forever)
				s.write("web.yaml", manifest)
				s.waitPhase("web-n", v1.PodRunning)
				u, err := url.Parse(fmt.Sprintf("https://127.0.0.1:%d/exec/default/web-n/main?command=cat&input=1&output=1", port))
				require.NoError(t, err)
				config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
				client, err := remotecommand.NewSPDYExecutor(config, "POST", u)
				if protocol == "WebSocket" {
					client, err = remotecommand.NewWebSocketExecutor(config, "GET", u.String())
				}
				require.NoError(t, err)
				nothing, w := io.Pipe()
				defer w.Close()
				err = client.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: nothing, Stdout: io.Discard})
				if protocol == "WebSocket" { // client-go's SPDY takes the end of the connection for that of the command
					require.ErrorContains(t, err, "no data for 500ms")
				}
			})
		}
	}
}

// enableServer: false leaves the ports of the file without TLS, and no profiles.
func TestAServerThatTheConfigurationDisables(t *testing.T) {
	t.Parallel()
	s, port, healthz := newStation(t, backends["process"]), testport.Free(t), testport.Free(t)
	file := filepath.Join(s.dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %d
healthzPort: %d
podLogsDir: logs
enableServer: false
enableProfilingHandler: true
`, port, healthz), 0o600))
	s.start("--config", file, "--container-runtime-endpoint", "process")
	_, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	code, _ := s.get("/debug/pprof/")
	require.Equal(t, http.StatusNotFound, code)
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", healthz))
	require.NoError(t, err)
	r.Body.Close()
	require.Equal(t, http.StatusOK, r.StatusCode)
}

// A registry that answers slowly sees as many images at the same time as the configuration file says.
func TestARegistrySeesTheConfiguredPulls(t *testing.T) {
	for fields, want := range map[string]int{"serializeImagePulls: true\n": 1, "maxParallelImagePulls: 2\n": 2, "": 4, "serializeImagePulls: false\n": 6} {
		t.Run(fields, func(t *testing.T) {
			s := newStation(t, backends["containerd-hostnet"])
			slow := &slowRegistry{want: want, reached: make(chan struct{})}
			registry := httptest.NewServer(slow)
			t.Cleanup(registry.Close)
			for i := range 6 {
				s.write(fmt.Sprintf("p%d.yaml", i), fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p%[1]d}\nspec:\n  hostNetwork: true\n  terminationGracePeriodSeconds: 0\n  containers: [{name: main, image: %[2]s/p%[1]d:1}]\n",
					i, strings.TrimPrefix(registry.URL, "http://")))
			}
			file := filepath.Join(s.dir, "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\npodLogsDir: logs\nhealthzPort: 0\nenableServer: false\n"+fields), 0o600))
			s.start("--config", file)
			s.eventually("each image was asked for", func() bool { return slow.images() == 6 })
			assert.Equal(t, want, slow.peak())
		})
	}
}

// slowRegistry has no images. It holds the requests until as many images as wanted are asked for at
// the same time, and a moment longer for any that are too many.
type slowRegistry struct {
	want    int
	reached chan struct{}

	mu   sync.Mutex
	seen map[string]bool
	now  map[string]int // requests under way, by image
	most int            // images at the same time
}

// ServeHTTP implements http.Handler.
func (r *slowRegistry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	defer http.NotFound(w, q)
	image, _, ok := strings.Cut(strings.TrimPrefix(q.URL.Path, "/v2/"), "/manifests/")
	if !ok {
		return
	}
	r.mu.Lock()
	if r.seen == nil {
		r.seen, r.now = map[string]bool{}, map[string]int{}
	}
	r.seen[image] = true
	r.now[image]++
	if r.most = max(r.most, len(r.now)); len(r.now) == r.want {
		select {
		case <-r.reached:
		default:
			close(r.reached)
		}
	}
	r.mu.Unlock()
	select {
	case <-r.reached:
	case <-time.After(patience):
	}
	time.Sleep(300 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now[image]--; r.now[image] == 0 {
		delete(r.now, image)
	}
}

func (r *slowRegistry) images() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

func (r *slowRegistry) peak() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// A container that keeps failing is restarted as often as the configuration file says: by default the
// fifth start is after 70 seconds.
func TestRestartPeriodOfAConfigurationFile(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	get := s.onConfig("crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n")
	manifest, pids := s.service("failing", "exit 1")
	s.write("failing.yaml", manifest)
	s.waitStarts(pids, 5)
	_, body := get("/configz")
	assert.Contains(t, body, `"crashLoopBackOff":{"maxContainerRestartPeriod":"1s"}`)
}

// The port without authentication serves the usage of the pods, as the kubelet's does.
func TestUsageOnTheReadOnlyPort(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	manifest, _ := s.service("web", forever)
	s.write("web.yaml", manifest)
	s.start()
	s.waitPhase("web-n", v1.PodRunning)
	for path, want := range map[string]string{"/stats/summary": `"podRef"`, "/metrics/resource": "node_memory_working_set_bytes", "/metrics/cadvisor": "machine_cpu_cores"} {
		code, text := s.get(path)
		require.Equal(t, http.StatusOK, code, path)
		require.Contains(t, text, want)
	}
}
