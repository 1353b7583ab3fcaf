// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/internal/testport"
)

// metricsServer returns the path of metrics-server, or skips the test.
func metricsServer(t *testing.T) string {
	t.Helper()
	path := os.Getenv("KEELSON_METRICS_SERVER")
	if path == "" {
		t.Skip("KEELSON_METRICS_SERVER is not set (e2e/program.sh metrics-server builds one)")
	}
	return path
}

// kubectl top shows the usage of the node and of a pod: metrics-server scrapes the agent, and the API
// server forwards the requests of kubectl to metrics-server.
func TestKubectlTop(t *testing.T) {
	program := metricsServer(t)
	for _, name := range []string{"process", "containerd"} {
		t.Run(name, func(t *testing.T) {
			cert, key := clientCertificate(t)
			s := startServed(t, backends[name], cert, key, apiservertest.Options{Flags: []string{
				"--requestheader-client-ca-file", cert, "--proxy-client-cert-file", cert, "--proxy-client-key-file", key,
				"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group", "--requestheader-extra-headers-prefix", "X-Remote-Extra-",
			}})
			s.startMetricsServer(program)
			s.bind("web", "trap 'exit 0' TERM; i=0; while :; do i=$((i+1)); [ $((i%100000)) -ne 0 ] || sleep 0.2; done")
			s.told("web", "runs", running)
			var nodes, pods []byte
			s.eventually("metrics-server has scraped twice", func() bool {
				var nodeErr, podErr error
				nodes, nodeErr = s.server.Kubectl(t.Context(), "top", "nodes", "--no-headers")
				pods, podErr = s.server.Kubectl(t.Context(), "top", "pods", "--no-headers", "--containers")
				return nodeErr == nil && podErr == nil && len(pods) > 0
			})
			t.Logf("\n%s%s", nodes, pods)
			node := strings.Fields(string(nodes)) // localhost 512m 25% 1000Mi 12%
			require.Equal(t, "localhost", node[0])
			require.Positive(t, amount(t, node[1], "m"))
			require.Positive(t, amount(t, node[3], "Mi"))
			pod := strings.Fields(string(pods)) // web main 12m 1Mi
			require.Equal(t, []string{"web", "main"}, pod[:2])
			require.Positive(t, amount(t, pod[2], "m"))
			amount(t, pod[3], "Mi")
		})
	}
}

func amount(t *testing.T, text, unit string) int {
	t.Helper()
	number, ok := strings.CutSuffix(text, unit)
	require.True(t, ok, text)
	n, err := strconv.Atoi(number)
	require.NoError(t, err)
	return n
}

// startMetricsServer starts metrics-server as an administrator, and registers it with the API server.
// The node is called localhost, which is also the address of metrics-server.
func (s served) startMetricsServer(program string) {
	s.Helper()
	kubeconfig, err := s.server.WriteKubeconfig(s.server.Config())
	require.NoError(s, err)
	port := testport.Free(s)
	cmd := exec.Command(program, "--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--secure-port", strconv.Itoa(port), "--bind-address", "127.0.0.1", "--cert-dir", filepath.Join(s.dir, "metrics-server"), "--metric-resolution", "10s", "--kubelet-request-timeout", "9s",
		"--kubelet-insecure-tls", "--kubelet-preferred-address-types", "Hostname", "--kubelet-use-node-status-port")
	log := &tail{}
	cmd.Stderr = log
	require.NoError(s, cmd.Start())
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.Failed() {
			s.Logf("metrics-server's log:\n%s", log)
		}
	})
	objects := filepath.Join(s.dir, "metrics-server.yaml")
	require.NoError(s, os.WriteFile(objects, fmt.Appendf(nil, `apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %[1]d}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics-server, namespace: kube-system, port: %[1]d}
`, port), 0o600))
	s.eventually("the API server takes the objects", func() bool {
		_, err := s.server.Kubectl(s.Context(), "apply", "-f", objects)
		return err == nil
	})
}
