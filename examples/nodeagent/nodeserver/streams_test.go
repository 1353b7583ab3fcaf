// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	streamserver "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/runtime"
)

// containers is a runtime with one pod and upstream's stream server for container runtimes. Commands
// are functions of this file.
type containers struct {
	runtime.Runtime
	pod     *v1.Pod
	server  streaming.Server
	url     *url.URL
	refuses error // by every call for a URL

	mu struct {
		sync.Mutex
		running int // commands
	}
}

func newContainers(t *testing.T) *containers {
	t.Helper()
	c := &containers{pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u1"}}}
	c.pod.Spec.Containers = []v1.Container{{Name: "main"}, {Name: "waiting"}}
	var handler http.Handler
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(backend.Close)
	config := streaming.DefaultConfig
	config.StreamCreationTimeout = time.Second
	var err error
	c.url, err = url.Parse(backend.URL)
	require.NoError(t, err)
	config.BaseURL = c.url
	c.server, err = streaming.NewServer(config, c)
	require.NoError(t, err)
	handler = c.server
	return c
}

func (c *containers) find(namespace, name string) *v1.Pod {
	if namespace == c.pod.Namespace && name == c.pod.Name {
		return c.pod
	}
	return nil
}

// PodStatus implements runtime.Runtime.
func (c *containers) PodStatus(_ context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return &runtime.PodStatus{UID: uid, Sandboxes: []runtime.SandboxStatus{{ID: "s1", Ready: true}}, Containers: []runtime.ContainerStatus{
		{Name: "main", ID: runtime.ContainerID{Runtime: "test", ID: "c1"}, Sandbox: "s1", State: runtime.StateRunning},
		{Name: "waiting", ID: runtime.ContainerID{Runtime: "test", ID: "c2"}, Sandbox: "s1", State: runtime.StateExited},
	}}, nil
}

// ExecURL implements runtime.Streamer.
func (c *containers) ExecURL(_ context.Context, id runtime.ContainerID, cmd []string, s runtime.Streams) (*url.URL, error) {
	if c.refuses != nil {
		return nil, c.refuses
	}
	a, err := c.server.GetExec(&api.ExecRequest{ContainerId: id.ID, Cmd: cmd, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, Tty: s.TTY})
	if err != nil {
		return nil, err
	}
	return url.Parse(a.Url)
}

// AttachURL implements runtime.Streamer.
func (c *containers) AttachURL(_ context.Context, id runtime.ContainerID, s runtime.Streams) (*url.URL, error) {
	a, err := c.server.GetAttach(&api.AttachRequest{ContainerId: id.ID, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, Tty: s.TTY})
	if err != nil {
		return nil, err
	}
	return url.Parse(a.Url)
}

// PortForwardURL implements runtime.Streamer.
func (c *containers) PortForwardURL(_ context.Context, id runtime.SandboxID, ports []int32) (*url.URL, error) {
	a, err := c.server.GetPortForward(&api.PortForwardRequest{PodSandboxId: string(id), Port: ports})
	if err != nil {
		return nil, err
	}
	return url.Parse(a.Url)
}

// Exec implements streaming.Runtime. It knows the commands cat, exit CODE, sizes and flood.
func (c *containers) Exec(_ context.Context, _ string, cmd []string, in io.Reader, out, errOut io.WriteCloser, _ bool, resize <-chan streamserver.TerminalSize) error {
	c.count(1)
	defer c.count(-1)
	switch cmd[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "exit":
		if out != nil {
			fmt.Fprint(out, "out")
		}
		if errOut != nil {
			fmt.Fprint(errOut, "err")
		}
		return utilexec.CodeExitError{Err: errors.New("it failed"), Code: 3}
	case "sizes":
		if in != nil { // spdystream never ends a connection with input that its program does not read
			go func() { _, _ = io.Copy(io.Discard, in) }()
		}
		for range 2 {
			size, ok := <-resize
			if !ok {
				return errors.New("the client has left")
			}
			fmt.Fprintf(out, "%dx%d\n", size.Width, size.Height)
		}
		return nil
	case "flood":
		for text := bytes.Repeat([]byte("x"), 32<<10); ; {
			if _, err := out.Write(text); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%q is unknown", cmd[0])
}

// Attach implements streaming.Runtime.
func (c *containers) Attach(ctx context.Context, id string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan streamserver.TerminalSize) error {
	return c.Exec(ctx, id, []string{"cat"}, in, out, errOut, tty, resize)
}

// PortForward implements streaming.Runtime. A port echoes in upper case; port 9 refuses.
func (c *containers) PortForward(_ context.Context, _ string, port int32, stream io.ReadWriteCloser) error {
	c.count(1)
	defer c.count(-1)
	if port == 9 {
		return errors.New("nothing listens")
	}
	data := make([]byte, 1000)
	for {
		n, err := stream.Read(data)
		if err != nil {
			return nil
		}
		if _, err := stream.Write(bytes.ToUpper(data[:n])); err != nil {
			return err
		}
	}
}

func (c *containers) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.running += n
}

// running returns the number of commands and forwarded connections.
func (c *containers) running() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.running
}

// serveStreams returns the URL of a server with the containers.
func serveStreams(t *testing.T, rt runtime.Runtime, find nodeserver.PodFinder) string {
	t.Helper()
	h := newServer(t, nodeserver.Streams(nodeserver.StreamOptions{Pods: find, Runtime: rt}))
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return s.URL
}

// protocols are those of kubectl: today's, and the one that it falls back to.
var protocols = []string{"WebSocket", "SPDY"}

// stream runs a command with client-go's client of a protocol.
func stream(t *testing.T, protocol, target string, opts remotecommand.StreamOptions) error {
	t.Helper()
	return streamer(t, protocol, target).StreamWithContext(t.Context(), opts)
}

func streamer(t *testing.T, protocol, target string) remotecommand.Executor {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	client, err := remotecommand.NewSPDYExecutor(&rest.Config{}, "POST", u)
	if protocol == "WebSocket" {
		client, err = remotecommand.NewWebSocketExecutor(&rest.Config{}, "GET", target)
	}
	require.NoError(t, err)
	return client
}

func TestExecByProxy(t *testing.T) {
	c := newContainers(t)
	checkExec(t, c, c.find)
	assert.Zero(t, c.running())
}

// checkExec runs commands with each protocol.
func checkExec(t *testing.T, rt runtime.Runtime, find nodeserver.PodFinder) {
	base := serveStreams(t, rt, find) + "/exec/ns/web/"
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			var out, errOut strings.Builder
			text := strings.Repeat("through standard input and back\n", 1<<15)
			require.NoError(t, stream(t, protocol, base+"main?command=cat&input=1&output=1", remotecommand.StreamOptions{Stdin: strings.NewReader(text), Stdout: &out}))
			assert.Equal(t, len(text), out.Len(), "1 MiB, and the end of the input")
			assert.Equal(t, text, out.String())

			out.Reset()
			err := stream(t, protocol, base+"u1/main?command=exit&command=3&output=1&error=1", remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut})
			var exit interface{ ExitStatus() int }
			require.ErrorAs(t, err, &exit)
			assert.Equal(t, 3, exit.ExitStatus())
			assert.Equal(t, "out", out.String())
			assert.Equal(t, "err", errOut.String())

			require.Error(t, stream(t, protocol, base+"main?command=exit&command=3&error=1", remotecommand.StreamOptions{Stderr: io.Discard}))

			out.Reset()
			sizes := make(sizeQueue, 2)
			sizes <- remotecommand.TerminalSize{Width: 80, Height: 24}
			opts := remotecommand.StreamOptions{Stdout: writerFunc(func(p []byte) (int, error) {
				if out.Len() == 0 {
					sizes <- remotecommand.TerminalSize{Width: 100, Height: 30}
					close(sizes)
				}
				return out.Write(p)
			}), Tty: true, TerminalSizeQueue: sizes}
			require.NoError(t, stream(t, protocol, base+"main?command=sizes&output=1&error=1&tty=1", opts))
			assert.Equal(t, "80x24\n100x30\n", out.String())

			err = stream(t, protocol, base+"main?command=unheard-of&output=1", remotecommand.StreamOptions{Stdout: &out})
			assert.ErrorContains(t, err, `error executing command in container: "unheard-of" is unknown`)
		})
	}
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// sizeQueue implements remotecommand.TerminalSizeQueue.
type sizeQueue chan remotecommand.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (q sizeQueue) Next() *remotecommand.TerminalSize {
	size, ok := <-q
	if !ok {
		return nil
	}
	return &size
}

func TestAttachByProxy(t *testing.T) {
	c := newContainers(t)
	base := serveStreams(t, c, c.find) + "/attach/ns/web/main?input=1&output=1"
	for _, protocol := range protocols {
		var out strings.Builder
		require.NoError(t, stream(t, protocol, base, remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out}))
		assert.Equal(t, "hello", out.String(), protocol)
	}
}

// The answers before a connection is upgraded are the kubelet's.
func TestRefusedStreams(t *testing.T) {
	c := newContainers(t)
	h := newServer(t, nodeserver.Streams(nodeserver.StreamOptions{Pods: c.find, Runtime: c}))
	for target, want := range map[string]struct {
		code int
		text string
	}{
		"/exec/ns/web/main?command=ls":                     {400, "you must specify at least 1 of stdin, stdout, stderr"},
		"/attach/ns/web/main":                              {400, "you must specify at least 1 of stdin, stdout, stderr"},
		"/exec/ns/other/main?command=ls&output=1":          {404, "pod does not exist"},
		"/exec/ns/web/waiting?command=ls&output=1":         {500, `container not found ("waiting")`},
		"/attach/ns/web/waiting?output=1":                  {500, "container waiting not found in pod web_ns"},
		"/exec/ns/web/main?command=ls&output=1":            {500, "Upgrade request required"},
		"/portForward/ns/other":                            {404, "pod does not exist"},
		"/portForward/ns/web/u2":                           {404, "pod not found"},
		"/portForward/ns/web/u1":                           {500, "Upgrade request required"},
		"/exec/ns/web/another/main?command=ls&output=1":    {500, "Upgrade request required"},
		"/exec/ns/web/main/too/many?command=ls&output=1":   {404, "404 page not found\n"},
		"/portForward/ns/web/u1/more?command=ls&output=1":  {404, "404 page not found\n"},
		"/attach/ns/web/main?output=1&input=true&error=no": {500, "Upgrade request required"},
	} {
		for _, method := range []string{"GET", "POST"} {
			code, text := ask(t, h, method, target)
			assert.Equal(t, want.code, code, target)
			assert.Equal(t, want.text, text, target)
		}
		code, _ := ask(t, h, "PUT", target)
		assert.Contains(t, []int{404, 405}, code)
	}
	c.refuses = fmt.Errorf("Exec: %w", runtime.ErrNotFound)
	code, _ := ask(t, h, "POST", "/exec/ns/web/main?command=ls&output=1")
	assert.Equal(t, 404, code)
}

// A client's credentials do not reach the runtime, and the runtime's refusal reaches the client.
func TestRuntimeThatRefuses(t *testing.T) {
	var got http.Header
	status := http.StatusTeapot
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		http.Error(w, "too hot", status)
	}))
	defer backend.Close()
	c := newContainers(t)
	to, err := url.Parse(backend.URL + "/secret")
	require.NoError(t, err)
	h := newServer(t, nodeserver.Streams(nodeserver.StreamOptions{Pods: c.find, Runtime: fixedURL{c, to}}))
	headers := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}, "X-Stream-Protocol-Version": {"v4.channel.k8s.io"}, "Authorization": {"Bearer secret"}, "Cookie": {"a=secret"}}
	upgrade := func() (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/exec/ns/web/main?command=ls&output=1", nil)
		r.Header = headers
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	code, text := upgrade()
	assert.Equal(t, http.StatusTeapot, code)
	assert.Equal(t, "too hot\n", text)
	assert.Equal(t, "SPDY/3.1", got.Get("Upgrade"))
	assert.Equal(t, "v4.channel.k8s.io", got.Get("X-Stream-Protocol-Version"))
	assert.NotContains(t, fmt.Sprint(got), "secret")

	for _, status = range []int{200, 302} {
		code, text = upgrade()
		assert.Equal(t, 500, code)
		assert.Equal(t, fmt.Sprintf("the runtime's stream server answered an upgrade request with %d", status), text)
	}
	backend.Close()
	code, text = upgrade()
	assert.Equal(t, 500, code)
	assert.NotContains(t, text, "secret")
}

// fixedURL is a runtime that always answers with the same URL.
type fixedURL struct {
	*containers
	to *url.URL
}

// ExecURL implements runtime.Streamer.
func (f fixedURL) ExecURL(context.Context, runtime.ContainerID, []string, runtime.Streams) (*url.URL, error) {
	return f.to, nil
}
