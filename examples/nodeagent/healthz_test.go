// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/testport"
)

// ask returns the answer of an address, with code 0 if there is none.
func ask(t *testing.T, url string) (code int, body string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(text)
}

// kubeadm join waits until /healthz answers at the port of the configuration file.
func TestHealthzOfAConfigurationFile(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	port := testport.Free(t)
	file := filepath.Join(s.dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
healthzBindAddress: 127.0.0.1
healthzPort: %d
podLogsDir: logs
`, port), 0o600))
	s.start("--config", file, "--container-runtime-endpoint", "process")
	url := fmt.Sprintf("http://127.0.0.1:%d/healthz", port)
	s.eventually("it answers", func() bool { code, _ := ask(t, url); return code == http.StatusOK })
	_, body := ask(t, url)
	require.Equal(t, "ok", body)
	code, body := ask(t, url+"?verbose")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "[+]ping ok\n[+]syncloop ok\nhealthz check passed\n", body)
	code, _ = ask(t, fmt.Sprintf("http://127.0.0.1:%d/pods", port))
	require.Equal(t, http.StatusNotFound, code, "nothing else is told without authentication")

	s.kill()
	code, _ = ask(t, url)
	require.Zero(t, code)
	s.start("--healthz-port", "0", "--config", file, "--container-runtime-endpoint", "process")
	_, body = ask(t, url)
	require.Contains(t, body, syscall.ECONNREFUSED.Error(), "the command line is stronger")
}
