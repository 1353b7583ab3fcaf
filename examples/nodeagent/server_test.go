// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	goruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/internal/testport"
)

// served is a node whose server the API server uses, with its client certificate.
type served struct {
	*clustered
	serverPort        int
	certFile, keyFile string // of the API server
}

// get asks the node itself, with the API server's certificate.
func (s served) get(path string) string {
	s.Helper()
	code, text := s.request(http.MethodGet, path)
	require.Equal(s, http.StatusOK, code, "%s: %s", path, text)
	return text
}

// request sends a request to the node itself, with the API server's certificate.
func (s served) request(method, path string) (code int, body string) {
	s.Helper()
	pair, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
	require.NoError(s, err)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(s.Context(), method, fmt.Sprintf("https://127.0.0.1:%d%s", s.serverPort, path), nil)
	require.NoError(s, err)
	response, err := client.Do(r)
	require.NoError(s, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s, err)
	return response.StatusCode, string(text)
}

// The node is called localhost, because the API server connects to the node by its name.
func newServed(t *testing.T, b backend) served {
	t.Helper()
	cert, key := clientCertificate(t)
	return startServed(t, b, cert, key, apiservertest.Options{})
}

// startServed is newServed with the client certificate and further options of the API server.
func startServed(t *testing.T, b backend, cert, key string, opts apiservertest.Options, flags ...string) served {
	t.Helper()
	port := testport.Free(t)
	opts.Flags = append(opts.Flags, "--kubelet-client-certificate", cert, "--kubelet-client-key", key, "--kubelet-preferred-address-types", "Hostname")
	c := newClusteredNode(t, b, "localhost", opts)
	c.start(append(append(c.flags, "--port", strconv.Itoa(port), "--client-ca-file", cert), flags...)...)
	c.eventually("the API server knows the node's port", func() bool {
		node, err := c.core.Nodes().Get(t.Context(), "localhost", metav1.GetOptions{})
		return err == nil && int(node.Status.DaemonEndpoints.KubeletEndpoint.Port) == port
	})
	return served{c, port, cert, key}
}

// clientCertificate writes the API server's certificate, which is its own authority, and its key.
func clientCertificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "kube-apiserver", Organization: []string{"system:masters"}},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
	return certFile, keyFile
}

// clients are those of kubectl: today's, and the one that it falls back to.
var clients = []string{"WebSocket", "SPDY"}

// client returns a client for a subresource of a pod.
func (s served) client(protocol, pod, subresource string, query goruntime.Object) remotecommand.Executor {
	s.Helper()
	u := s.core.RESTClient().Post().Namespace(v1.NamespaceDefault).Resource("pods").Name(pod).SubResource(subresource).
		VersionedParams(query, scheme.ParameterCodec).URL()
	client, err := remotecommand.NewSPDYExecutor(s.server.Config(), "POST", u)
	if protocol == "WebSocket" {
		client, err = remotecommand.NewWebSocketExecutor(s.server.Config(), "GET", u.String())
	}
	require.NoError(s, err)
	return client
}

// exec runs a command in the container main and returns its output and exit code.
func (s served) exec(protocol, pod, stdin string, command ...string) (stdout, stderr string, code int) {
	s.Helper()
	query := &v1.PodExecOptions{Container: "main", Command: command, Stdin: stdin != "", Stdout: true, Stderr: true}
	var out, errOut bytes.Buffer
	streams := remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}
	if stdin != "" {
		streams.Stdin = strings.NewReader(stdin)
	}
	err := s.client(protocol, pod, "exec", query).StreamWithContext(s.Context(), streams)
	if exit := utilexec.ExitError(nil); errors.As(err, &exit) {
		return out.String(), errOut.String(), exit.ExitStatus()
	}
	require.NoError(s, err)
	return out.String(), errOut.String(), 0
}

func (s served) logs(pod string, opts v1.PodLogOptions) string {
	s.Helper()
	opts.Container = "main"
	text, err := s.api.GetLogs(pod, &opts).DoRaw(s.Context())
	require.NoError(s, err)
	return string(text)
}

// A client of the API server reaches the containers of a node.
func TestKubectlReachesContainers(t *testing.T) {
	s := newServed(t, backends["containerd"])
	s.bind("web", "trap 'exit 0' TERM; echo one; echo two >&2; nc -ll -p 8080 -e cat & while :; do sleep 0.2; done")
	s.bind("once", "echo run; sleep 0.2; exit 1")
	listener := s.bindPod("listener", func(pod *v1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Command = []string{"/bin/sh", "-c", "trap 'exit 0' TERM; while read x; do echo heard $x; done; echo end; while :; do sleep 0.2; done"}
		c.Stdin, c.StdinOnce = true, true
	})
	s.told("web", "runs", running)

	for _, protocol := range clients {
		s.Log(protocol)
		out, errOut, code := s.exec(protocol, "web", "", "sh", "-c", "echo out; echo err >&2; exit 3")
		assert.Equal(t, []any{"out\n", "err\n", 3}, []any{out, errOut, code})
		text := strings.Repeat("through standard input and back\n", 1<<15)
		out, _, code = s.exec(protocol, "web", text, "cat")
		assert.Zero(t, code)
		assert.Equal(t, len(text), len(out), "1 MiB, and the end of the input")
		out = s.terminal(protocol, "web", "is() { [ \"$(stty size 2>/dev/null)\" = \"$1\" ]; }; until is '24 80'; do sleep 0.05; done; echo small; until is '30 100'; do sleep 0.05; done; echo large")
		assert.Equal(t, "small\r\nlarge\r\n", out)
	}
	_, err := s.server.Kubectl(t.Context(), "exec", "web", "--", "sh", "-c", "exit 4")
	assert.ErrorContains(t, err, "exit code 4")

	s.Log("files are copied both ways")
	from, back := filepath.Join(s.dir, "from"), filepath.Join(s.dir, "back")
	require.NoError(t, os.WriteFile(from, bytes.Repeat([]byte("0123456789abcdef"), 1<<14), 0o600))
	_, err = s.server.Kubectl(t.Context(), "cp", from, "default/web:/tmp/copy")
	require.NoError(t, err)
	_, err = s.server.Kubectl(t.Context(), "cp", "default/web:/tmp/copy", back)
	require.NoError(t, err)
	copied, err := os.ReadFile(back)
	require.NoError(t, err)
	assert.Len(t, copied, 1<<18)

	s.Log("logs are read")
	tail := int64(1)
	assert.Equal(t, "one\ntwo\n", s.logs("web", v1.PodLogOptions{}))
	assert.Equal(t, "two\n", s.logs("web", v1.PodLogOptions{TailLines: &tail}))
	followed, err := s.api.GetLogs("web", &v1.PodLogOptions{Container: "main", Follow: true}).Stream(t.Context())
	require.NoError(t, err)
	lines := bufio.NewScanner(followed)
	for _, want := range []string{"one", "two"} {
		require.True(t, lines.Scan())
		assert.Equal(t, want, lines.Text())
	}
	s.exec("WebSocket", "web", "", "sh", "-c", "echo three >/proc/1/fd/1")
	require.True(t, lines.Scan())
	assert.Equal(t, "three", lines.Text())
	require.NoError(t, followed.Close())
	s.told("once", "has been restarted", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0
	})
	assert.Equal(t, "run\n", s.logs("once", v1.PodLogOptions{Previous: true}))
	_, err = s.server.Kubectl(t.Context(), "logs", "web", "--previous")
	assert.ErrorContains(t, err, `previous terminated container "main" in pod "web" not found`)

	s.checkPortForward("web", 8080)
	s.checkAttach(listener.Name)

	s.Log("the node describes itself")
	for path, want := range map[string]string{
		"/configz": `"maxPods":110`, "/flagz": "\nhostname-override=localhost\n", "/statusz": "keelson statusz", "/metrics": "kubelet_node_name",
		"/healthz": "ok", "/pods": `"name":"web"`, "/runningpods/": `"name":"web"`, "/logs/": "<pre>",
	} {
		assert.Contains(t, s.get(path), want)
	}

	s.Log("a stranger is refused")
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := stranger.Get(fmt.Sprintf("https://127.0.0.1:%d/pods", s.serverPort))
	require.NoError(t, err)
	response.Body.Close()
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
}

// The process backend has no stream server: the agent serves the connections itself.
func TestKubectlReachesProcesses(t *testing.T) {
	s := newServed(t, backends["process"])
	s.bind("web", "trap 'exit 0' TERM; echo one; echo two >&2; while :; do sleep 0.2; done")
	s.told("web", "runs", running)
	for _, protocol := range clients {
		s.Log(protocol)
		out, errOut, code := s.exec(protocol, "web", "", "sh", "-c", "echo out; echo err >&2; exit 3")
		assert.Equal(t, []any{"out\n", "err\n", 3}, []any{out, errOut, code})
		text := strings.Repeat("through standard input and back\n", 1<<15)
		out, _, code = s.exec(protocol, "web", text, "cat")
		assert.Zero(t, code)
		assert.Equal(t, len(text), len(out), "1 MiB, and the end of the input")
		out = s.terminal(protocol, "web", "is() { [ \"$(stty size 2>/dev/null)\" = \"$1\" ]; }; until is '24 80'; do sleep 0.05; done; echo small; until is '30 100'; do sleep 0.05; done; echo large")
		assert.Equal(t, "small\r\nlarge\r\n", out)
	}
	assert.ElementsMatch(t, []string{"one", "two"}, strings.Fields(s.logs("web", v1.PodLogOptions{})), "the streams are two pipes")

	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go echo(l)
	s.checkPortForward("web", l.Addr().(*net.TCPAddr).Port)
	s.checkPassedOn()

	s.Log("errors of clients are in the agent's log")
	err = s.client("SPDY", "web", "exec", &v1.PodExecOptions{Container: "main", Command: []string{"no-such-command"}, Stdout: true}).
		StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
	require.ErrorContains(t, err, "no-such-command")
	for line := range strings.Lines(s.log.String()) {
		assert.True(t, json.Valid([]byte(line)), "beside the agent's log: %s", line)
	}

	err = s.client("SPDY", "web", "attach", &v1.PodAttachOptions{Container: "main", Stdin: true, Stdout: true}).
		StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: io.Discard})
	assert.ErrorContains(t, err, "containers of the process runtime have no standard input")
}

// checkPassedOn expects that the API server has translated no WebSocket of kubectl.
func (s served) checkPassedOn() {
	s.Helper()
	text, err := s.core.RESTClient().Get().AbsPath("/metrics").DoRaw(s.Context())
	require.NoError(s, err)
	var routed []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "websocket_streaming_requests_total{") {
			routed = append(routed, line)
		}
	}
	assert.Len(s, routed, 2, "exec and portforward")
	for _, line := range routed {
		assert.Contains(s, line, `proxy_type="proxied_to_kubelet"`)
	}
}

// echo returns the input of each connection when it has ended.
func echo(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			text, _ := io.ReadAll(conn)
			_, _ = conn.Write(text)
		}()
	}
}

// terminal runs a script on a terminal whose size changes.
func (s served) terminal(protocol, pod, script string) string {
	s.Helper()
	var out lockedBuffer
	sizes := make(sizes, 1)
	sizes <- remotecommand.TerminalSize{Width: 80, Height: 24}
	query := &v1.PodExecOptions{Container: "main", Command: []string{"sh", "-c", script}, Stdin: true, Stdout: true, TTY: true}
	client := s.client(protocol, pod, "exec", query)
	ended := make(chan error, 1)
	go func() {
		ended <- client.StreamWithContext(s.Context(), remotecommand.StreamOptions{Stdin: silence(s.Context()), Stdout: &out, Tty: true, TerminalSizeQueue: sizes})
	}()
	s.eventually("the script sees the first size", func() bool { return out.String() != "" })
	sizes <- remotecommand.TerminalSize{Width: 100, Height: 30}
	require.NoError(s, <-ended)
	close(sizes)
	return out.String()
}

// sizes implements remotecommand.TerminalSizeQueue.
type sizes chan remotecommand.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// silence is a reader without data, until ctx ends.
func silence(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.Close() })
	return r
}

func (s served) checkPortForward(pod string, port int) {
	s.Helper()
	s.Log("bytes go to a port and come back, and the end of the input")
	transport, upgrader, err := spdy.RoundTripperFor(s.server.Config())
	require.NoError(s, err)
	u := s.core.RESTClient().Post().Namespace(v1.NamespaceDefault).Resource("pods").Name(pod).SubResource("portforward").URL()
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(u, s.server.Config())
	require.NoError(s, err)
	for _, dialer := range listOf(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", u), tunnel) {
		stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port), "0:9"}, stop, ready, io.Discard, io.Discard)
		require.NoError(s, err)
		go func() { ended <- forwarder.ForwardPorts() }()
		<-ready
		ports, err := forwarder.GetPorts()
		require.NoError(s, err)
		for range 2 {
			assert.Equal(s, "echo", through(s, ports[0].Local, "echo"))
		}
		assert.Empty(s, through(s, ports[1].Local, "nothing listens"))
		close(stop)
		<-ended // with an error, because client-go gives the connection up when nothing listens
	}
}

// listOf infers the type of dialers, whose package is deprecated, and which client-go still takes.
func listOf[T any](all ...T) []T { return all }

// through sends text to a port, and returns the answer. The container's nc ends with its input.
func through(s served, port uint16, text string) string {
	s.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	require.NoError(s, err)
	defer conn.Close()
	_, _ = conn.Write([]byte(text)) // the forwarder closes the connection if nothing listens
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func (s served) checkAttach(pod string) {
	s.Helper()
	s.Log("the main process is talked to; its input ends with the first client")
	s.told(pod, "runs", running)
	var out lockedBuffer
	in, write := io.Pipe()
	ctx, leave := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	client := s.client("WebSocket", pod, "attach", &v1.PodAttachOptions{Container: "main", Stdin: true, Stdout: true, Stderr: true})
	go func() {
		ended <- client.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: &out, Stderr: io.Discard})
	}()
	_, err := write.Write([]byte("hello\n"))
	require.NoError(s, err)
	s.eventually("it has heard", func() bool { return strings.Contains(out.String(), "heard hello\n") })
	require.NoError(s, write.Close())
	s.eventually("its input has ended", func() bool { return strings.Contains(s.logs(pod, v1.PodLogOptions{}), "end\n") })
	leave()
	<-ended
}

// lockedBuffer is a buffer that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
