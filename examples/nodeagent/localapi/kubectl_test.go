// SPDX-License-Identifier: Apache-2.0

//go:build linux

package localapi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/internal/testport"
)

// lone is the node agent with processes as containers, without an API server.
type lone struct {
	*testing.T
	kubectl, program, dir, root string
}

const manifestOf = `apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %[1]s}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - {name: main, image: localhost/busybox:1, command: [/bin/sh, -c, "echo one; echo two; echo %s; while :; do sleep 0.2; done"]}
`

// findKubectl returns the kubectl of make e2e, or skips the test.
func findKubectl(t *testing.T) string {
	kubectl := filepath.Join(os.Getenv(apiservertest.DirVariable), "kubectl")
	if _, err := os.Stat(kubectl); err != nil {
		if os.Getenv(apiservertest.RequireVariable) != "" {
			t.Fatal("no kubectl: ", err)
		}
		t.Skip("no kubectl: ", err)
	}
	return kubectl
}

// newLone starts the agent, and writes a kubeconfig.
func newLone(t *testing.T, kubectl string) *lone {
	dir, err := os.MkdirTemp("", "lone") // the path of a socket has to be short
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	n := &lone{T: t, kubectl: kubectl, program: filepath.Join(dir, "nodeagent"), dir: dir, root: filepath.Join(dir, "root")}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "grpcnotrace", "-buildvcs=false", "-o", n.program, "..").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.Mkdir(n.path("m"), 0o700))
	n.write("m/file.yaml", fmt.Sprintf(manifestOf, "file", "three"))
	agent := exec.Command(n.program, n.path("m"), "--root-dir", n.root, "--hostname-override", "gw", "--read-only-port", "0",
		"--kubectl-port", strconv.Itoa(testport.Free(t)))
	log, err := os.Create(n.path("log"))
	require.NoError(t, err)
	agent.Stderr = log
	require.NoError(t, agent.Start())
	t.Cleanup(func() {
		require.NoError(t, agent.Process.Signal(os.Interrupt))
		assert.NoError(t, agent.Wait())
		log.Close()
		if text, err := os.ReadFile(n.path("log")); t.Failed() && err == nil {
			t.Logf("the agent's log:\n%s", text)
		}
		assert.NoFileExists(t, filepath.Join(n.root, "node.sock"))
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		out, err := exec.CommandContext(t.Context(), n.program, "kubeconfig", "--root-dir", n.root).Output()
		if err == nil {
			n.write("kubeconfig", string(out))
			return n
		}
		require.True(t, time.Now().Before(end), "the agent serves kubectl")
	}
}

func (n *lone) path(name string) string { return filepath.Join(n.dir, name) }

func (n *lone) write(name, content string) {
	n.Helper()
	require.NoError(n, os.WriteFile(n.path(name), []byte(content), 0o600))
}

// command returns kubectl with the kubeconfig. "~" is a space in an argument.
func (n *lone) command(ctx context.Context, line string) *exec.Cmd {
	args := strings.Fields(line)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "~", " ")
	}
	cmd := exec.CommandContext(ctx, n.kubectl, args...)
	cmd.Dir, cmd.Env = n.dir, append(os.Environ(), "HOME="+n.dir, "KUBECONFIG="+n.path("kubeconfig"))
	return cmd
}

// session is what a user of kubectl does with a node of its own, in this order, and a part of each
// answer. An answer that begins with "error: " is that of a command that fails.
var session = []struct{ command, want string }{
	{"wait pod/file --for=condition=Ready --timeout=60s", "condition met"},
	{"get pods -o wide", "gw"},
	{"get all -A", "Running"},
	{"get node gw", " Ready "},
	{"describe pod file", "Container started"},
	{"describe node gw", "Non-terminated Pods:"},
	{"logs file", "one\ntwo\nthree\n"},
	{"logs file --tail=1 --timestamps", "Z three\n"},
	{"logs file --previous", `error: previous terminated container "main" in pod "file`},
	{"logs file -c other", "error: container other is not valid for pod file"},
	{"exec file -- echo hello", "hello\n"},
	{"exec file -- sh -c exit~3", "error: command terminated with exit code 3"},
	{"cp blob file:copied", ""},
	{"cp file:copied back", ""},
	{"top pod file", "file"},
	{"top node", "gw"},
	{"apply -f web.yaml", "pod/web created"},
	{"wait pod/web --for=condition=Ready --timeout=60s", "condition met"},
	{"apply -f web.yaml", "pod/web unchanged"},
	{"apply -f bad.yaml", `error: strict decoding error: unknown field "spec.containers[0].imagee"`},
	{"apply -f second.yaml", "pod/web configured"},
	{"wait pod/web --for=condition=Ready --timeout=60s", "condition met"},
	{"logs web", "second\n"},
	{"label pod web x=y", "pod/web labeled"},
	{"apply -f file.yaml", "error: edit that file"},
	{"delete pod file --timeout=30s", `pod "file" deleted`},
	{"get pod file", "file"},
	{"delete -f web.yaml --timeout=30s", `pod "web" deleted`},
	{"get pod web", `error: pods "web" not found`},
	{"events --for pod/web", "Started"},
	{"debug file --image=x", "error: ephemeral containers are disabled"},
	{"get pods --token=wrong --kubeconfig=anonymous", "error: "},
}

func TestKubectlOnALoneNode(t *testing.T) {
	n := newLone(t, findKubectl(t))
	blob := strings.Repeat("0123456789abcdef", 3<<16)
	n.write("blob", blob)
	n.write("web.yaml", fmt.Sprintf(manifestOf, "web", "first"))
	n.write("second.yaml", fmt.Sprintf(manifestOf, "web", "second"))
	n.write("bad.yaml", strings.Replace(fmt.Sprintf(manifestOf, "web", "bad"), "image:", "imagee: x, image:", 1))
	n.write("file.yaml", fmt.Sprintf(manifestOf, "file", "other"))
	text, err := os.ReadFile(n.path("kubeconfig"))
	require.NoError(t, err)
	n.write("anonymous", strings.Split(string(text), "users:")[0]+"users: [{name: node, user: {}}]\n")
	for _, step := range session {
		out, err := n.command(t.Context(), step.command).CombinedOutput()
		if want, fails := strings.CutPrefix(step.want, "error: "); fails {
			assert.Error(t, err, step.command)
			assert.Contains(t, string(out), want, step.command)
			continue
		}
		require.NoError(t, err, "%s: %s", step.command, out)
		assert.Contains(t, string(out), step.want, step.command)
	}
	back, err := os.ReadFile(n.path("back"))
	require.NoError(t, err)
	require.True(t, blob == string(back), "kubectl cp copies both ways")
	n.forwardsPorts()
}

// forwardsPorts checks ten connections through kubectl port-forward.
func (n *lone) forwardsPorts() {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") }))
	defer page.Close()
	_, port, err := net.SplitHostPort(page.Listener.Addr().String())
	require.NoError(n, err)
	ctx, cancel := context.WithCancel(n.Context())
	defer cancel()
	cmd := n.command(ctx, "port-forward file :"+port)
	out, err := cmd.StdoutPipe()
	require.NoError(n, err)
	require.NoError(n, cmd.Start())
	var from, to string
	_, err = fmt.Fscanf(out, "Forwarding from %s -> %s", &from, &to)
	require.NoError(n, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 10 {
		response, err := client.Get("http://" + from)
		require.NoError(n, err)
		response.Body.Close()
		require.Equal(n, http.StatusOK, response.StatusCode)
	}
	cancel()
	_ = cmd.Wait()
}

// TestEverydayTasks runs the commands in the table of docs/local-api.md, in order, and further commands
// that fail.
func TestEverydayTasks(t *testing.T) {
	if os.Getenv("KEELSON_E2E") == "" {
		t.Skip("KEELSON_E2E is not set")
	}
	n := newLone(t, "")
	n.write("web.yaml", fmt.Sprintf(manifestOf, "web", "first"))
	blob := strings.Repeat("0123456789abcdef", 1<<16)
	n.write("blob", blob)
	page, err := os.ReadFile("../../../docs/local-api.md")
	require.NoError(t, err)
	tasks := regexp.MustCompile("(?m)^\\|.*\\| `nodeagent (\\w+)([^`]*)` \\|$").FindAllStringSubmatch(string(page), -1)
	require.Len(t, tasks, 8)
	run := func(line ...string) (string, int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, n.program, append([]string{line[0], "--root-dir", n.root}, line[1:]...)...)
		cmd.Dir = n.dir
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return string(out), exit.ExitCode()
		}
		require.NoError(t, err)
		return string(out), 0
	}
	wants := map[string]string{
		"ps": "web", "logs": "first", "exec": "hello", "cp": "", "apply": "web was applied", "restart": "web was restarted", "top": "main", "describe": "Started",
	}
	for _, task := range tasks {
		out, code := run(append([]string{task[1]}, strings.Fields(task[2])...)...)
		require.Zero(t, code, "%s: %s", task[0], out)
		require.Contains(t, out, wants[task[1]], task[0])
		switch task[1] {
		case "cp":
			copied, code := run("exec", "web", "--", "cat", "copy")
			require.Zero(t, code)
			require.True(t, copied == blob, "the whole file is copied")
		case "apply": // the others need the container
			for end := time.Now().Add(time.Minute); !strings.Contains(out, "Running"); out, _ = run("ps") {
				require.True(t, time.Now().Before(end), out)
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"exec web -- sh -c exit~7", "", 7},
		{"exec none -- true", `pods "none" not found`, 125},
		{"logs web/none", "container none is not valid", 1},
		{"rm file", "the pod was restarted", 0},
		{"rm -f web.yaml", "web has ended", 0},
		{"rm web", `pods "web" not found`, 1},
		{"ps --socket /no/such", "no agent answers at /no/such", 1},
		{"ps --selectr x=y", "did you mean --selector", 2},
		{"describe", "want nodeagent describe POD", 2},
		{"describe ../x", `pods "../x" not found`, 1},
		{"logs web --tail=-2", "--tail -2: want 0 or more", 2},
		{"logs web --since=-1s", "--since -1s: want a time above 0", 2},
		{"cp web: back", "want POD:FILE as one of the two arguments", 1},
		{"ps --socket /" + strings.Repeat("x", 110), "the path is too long for a unix socket", 1},
		{"completion", "complete -o default", 0},
	} {
		line := strings.Fields(c.line)
		for i := range line {
			line[i] = strings.ReplaceAll(line[i], "~", " ")
		}
		out, code := run(line...)
		assert.Equal(t, c.code, code, "%s: %s", c.line, out)
		assert.Contains(t, out, c.want, c.line)
	}
}
