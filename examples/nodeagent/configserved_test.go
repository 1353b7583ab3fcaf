// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	for _, tc := range []struct {
		fields string
		want   map[string]string
	}{
		{"enableDebuggingHandlers: false\n", map[string]string{
			"/containerLogs/default/p/c": "405 Debug endpoints are disabled.", "/exec/default/p/c": "405 Debug endpoints are disabled.",
			"/logs/": "405 Debug endpoints are disabled.", "/runningpods/": "405 Debug endpoints are disabled.",
			"/configz": "404 404 page not found", "/healthz": "200 ok",
		}},
		{"enableSystemLogHandler: false\n", map[string]string{
			"/logs/": "405 logs endpoint is disabled.", "/logs/dpkg.log": "405 logs endpoint is disabled.",
			"/containerLogs/default/p/c": `404 pod "p" does not exist`,
		}},
	} {
		s := newStation(t, backends["process"])
		get := s.onConfig(tc.fields)
		for path, want := range tc.want {
			code, body := get(path)
			assert.Equal(t, want, fmt.Sprintf("%d %.60s", code, strings.TrimSpace(body)), path)
		}
	}
}

// A container that keeps failing is restarted as often as the configuration file says: by default the
// fifth start is after 70 seconds.
func TestRestartPeriodOfAConfigurationFile(t *testing.T) {
	s := newStation(t, backends["process"])
	get := s.onConfig("crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n")
	manifest, pids := s.service("failing", "exit 1")
	s.write("failing.yaml", manifest)
	s.waitStarts(pids, 5)
	_, body := get("/configz")
	assert.Contains(t, body, `"crashLoopBackOff":{"maxContainerRestartPeriod":"1s"}`)
}
