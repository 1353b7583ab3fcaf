// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/runtime"
)

func TestDisabledEndpoints(t *testing.T) {
	s := newServer(t, nodeserver.Disabled("Debug endpoints are disabled.", "/run/", "/logs/"))
	for _, path := range []string{"/run", "/run/", "/run/a/b/c", "/logs", "/logs/x"} {
		for _, method := range []string{"GET", "POST"} {
			code, text := ask(t, s, method, path)
			assert.Equal(t, 405, code)
			assert.Equal(t, "Debug endpoints are disabled.\n", text)
		}
	}
	code, _ := ask(t, s, "GET", "/runs")
	assert.Equal(t, 404, code)
}

// Files of the folder are served, and no link leads out of it.
func TestNodeLogs(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	logs := filepath.Join(dir, "log")
	require.NoError(t, os.Mkdir(logs, 0o700))
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(logs, "syslog"), []byte("hello\n"), 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(logs, "absolute")))
	require.NoError(t, os.Symlink("../secret", filepath.Join(logs, "relative")))
	root, err := os.OpenRoot(logs)
	require.NoError(t, err)
	defer root.Close()
	s := newServer(t, nodeserver.NodeLogs(root.FS()))
	code, text := ask(t, s, "GET", "/logs/syslog")
	assert.Equal(t, 200, code)
	assert.Equal(t, "hello\n", text)
	code, text = ask(t, s, "GET", "/logs/")
	assert.Equal(t, 200, code)
	assert.Contains(t, text, `<a href="syslog">`)
	for _, path := range []string{"absolute", "relative", "..%2fsecret", "%2e%2e/secret", "/" + secret} {
		code, text = ask(t, s, "GET", "/logs/"+path)
		assert.NotEqual(t, 200, code, path)
		assert.NotEqual(t, "secret", text, path)
	}
	code, _ = ask(t, s, "PUT", "/logs/syslog")
	assert.Equal(t, 405, code)
}

func TestLogVerbosity(t *testing.T) {
	got := -1
	s := newServer(t, nodeserver.LogVerbosity(func(v int) { got = v }))
	put := func(method, body string) (int, string) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/debug/flags/v", strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	code, text := put("PUT", "4")
	assert.Equal(t, 200, code)
	assert.Equal(t, "successfully set klog.logging.verbosity to 4", text)
	assert.Equal(t, 4, got)
	for _, body := range []string{"", "x", "-1", "99999999999", strings.Repeat("1", 100)} {
		code, _ = put("PUT", body)
		assert.Equal(t, 400, code, body)
	}
	code, _ = put("GET", "")
	assert.Equal(t, 405, code)
	assert.Equal(t, 4, got)
}

func TestConfig(t *testing.T) {
	s := newServer(t, nodeserver.Config(func() (any, error) { return map[string]any{"kind": "KubeletConfiguration", "maxPods": 110}, nil }))
	code, text := ask(t, s, "GET", "/configz")
	assert.Equal(t, 200, code)
	assert.JSONEq(t, `{"kubeletconfig": {"kind": "KubeletConfiguration", "maxPods": 110}}`, text)
}

func TestTextsForPeople(t *testing.T) {
	program := nodeserver.Program{Name: "agent", Started: time.Now().Add(-90 * time.Minute), Version: "v1", Paths: []string{"/pods", "/metrics"}}
	s := newServer(t, nodeserver.Flags("agent", func() map[string]string { return map[string]string{"v": "1", "port": "2"} }), nodeserver.Status(program))
	asks := func(path, accept string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	_, text := asks("/flagz", "")
	assert.Contains(t, text, "\nagent flagz\nWarning: ")
	assert.Contains(t, text, "\nport=2\nv=1\n")
	_, text = asks("/statusz", "application/json, text/*;q=0.5")
	assert.Contains(t, text, "\nagent statusz\nWarning: ")
	assert.Contains(t, text, "Up: 1 hr 30 min 0")
	assert.Contains(t, text, "Binary version: v1\nPaths: /metrics /pods\n")
	for _, path := range []string{"/flagz", "/statusz"} {
		code, _ := asks(path, "application/json")
		assert.Equal(t, http.StatusNotAcceptable, code)
	}
}

// commands is a runtime whose Exec is a function.
type commands struct {
	*containers
	do func(cmd []string) (string, string, int, error)
}

// Exec implements runtime.Execer.
func (c commands) Exec(_ context.Context, _ runtime.ContainerID, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	out, errOut, code, err := c.do(cmd)
	return []byte(out), []byte(errOut), code, err
}

func TestRunCommand(t *testing.T) {
	var got []string
	rt := commands{newContainers(t), func(cmd []string) (string, string, int, error) {
		got = cmd
		switch cmd[0] {
		case "fail":
			return "some", "reason", 3, nil
		case "broken":
			return "", "", 0, errors.New("the runtime is down")
		}
		return "out", "err", 0, nil
	}}
	s := newServer(t, nodeserver.RunCommand(rt.find, rt))
	runs := func(target string, code int, body string) {
		t.Helper()
		gotCode, text := ask(t, s, "POST", target)
		assert.Equal(t, code, gotCode)
		assert.Equal(t, body, text)
	}
	runs("/run/ns/web/main?cmd=ls%20a%20%20b", 200, "outerr")
	assert.Equal(t, []string{"ls", "a", "", "b"}, got)
	runs("/run/ns/web/another/main?cmd=ls", 200, "outerr")
	runs("/run/ns/web/main?cmd=fail%20now", 500, "command 'fail now' exited with 3: somereason")
	runs("/run/ns/web/main?cmd=broken", 500, "the runtime is down")
	runs("/run/ns/web/waiting?cmd=ls", 500, `container not found ("waiting")`)
	runs("/run/ns/other/main?cmd=ls", 404, "pod does not exist")
	code, _ := ask(t, s, "GET", "/run/ns/web/main?cmd=ls")
	assert.Equal(t, 405, code)
	plain := newContainers(t)
	code, _ = ask(t, newServer(t, nodeserver.RunCommand(plain.find, plain)), "POST", "/run/ns/web/main?cmd=ls")
	assert.Equal(t, 501, code)
}
