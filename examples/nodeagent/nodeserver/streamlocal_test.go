// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	streamserver "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/runtime"
)

// sessions is a runtime that has no stream server. Its commands are those of containers.
type sessions struct {
	runtime.Runtime
	*containers
	log string
}

// Name implements runtime.Runtime.
func (s *sessions) Name() string { return "test" }

// PodStatus implements runtime.Runtime.
func (s *sessions) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	status, err := s.containers.PodStatus(ctx, uid)
	status.Containers[0].LogPath = s.log
	return status, err
}

// ExecURL hides the method of containers: sessions is no runtime.Streamer.
func (s *sessions) ExecURL() {}

// ExecSession implements runtime.SessionExecer.
func (s *sessions) ExecSession(ctx context.Context, _ runtime.ContainerID, cmd []string, session runtime.Session) (int, error) {
	if cmd[0] == "forever" {
		s.count(1)
		defer s.count(-1)
		<-ctx.Done()
		return 0, ctx.Err()
	}
	var resize chan streamserver.TerminalSize
	if session.Resize != nil {
		resize = make(chan streamserver.TerminalSize)
		go func() {
			defer close(resize)
			for size := range session.Resize {
				select {
				case resize <- streamserver.TerminalSize(size):
				case <-ctx.Done():
				}
			}
		}()
	}
	var out, errOut io.WriteCloser
	if session.Stdout != nil {
		out = nopCloser{session.Stdout}
	}
	if session.Stderr != nil {
		errOut = nopCloser{session.Stderr}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.containers.Exec(ctx, "", cmd, session.Stdin, out, errOut, session.TTY, resize) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done(): // a Read of Stdin may be in progress
		return 0, ctx.Err()
	}
	if exit := (utilexec.CodeExitError{}); errors.As(err, &exit) {
		return exit.Code, nil
	}
	return 0, err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func newSessions(t *testing.T) *sessions { return &sessions{containers: newContainers(t)} }

func TestExecInSessions(t *testing.T) {
	s := newSessions(t)
	checkExec(t, s, s.find)
}

func TestAttachShowsTheLogFromNowOn(t *testing.T) {
	l := newLogged(t)
	s := newSessions(t)
	s.log = l.path("2")
	base := serveStreams(t, s, s.find) + "/attach/ns/web/main?output=1"
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, w := io.Pipe()
	u, err := url.Parse(base)
	require.NoError(t, err)
	client, err := remotecommand.NewSPDYExecutor(&rest.Config{}, "POST", u)
	require.NoError(t, err)
	go func() { _ = client.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: w}) }()
	time.Sleep(300 * time.Millisecond) // until the client is attached; what was written before is not shown
	l.write(t, "2", "2026-01-01T00:00:04.000000001Z stdout F four\n")
	line := make([]byte, 100)
	n, err := r.Read(line)
	require.NoError(t, err)
	assert.Equal(t, "four\n", string(line[:n]))

	err = stream(t, "SPDY", base+"&input=1", remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: io.Discard})
	assert.ErrorContains(t, err, "containers of the test runtime have no standard input")
}

// echo is a TCP server that answers in upper case when its input has ended.
func echo(t *testing.T) (port int) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				text, _ := io.ReadAll(conn)
				_, _ = conn.Write([]byte(strings.ToUpper(string(text))))
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func TestPortForwardDials(t *testing.T) {
	s := newSessions(t)
	checkPortForward(t, s, s.find, echo(t))
}

// networked is a runtime whose pods have a loopback of their own: the port 80 is the port at.
type networked struct {
	*sessions
	at int
}

// DialPod implements runtime.PodDialer.
func (n networked) DialPod(ctx context.Context, _ types.UID, network, address string) (net.Conn, error) {
	if host, port, _ := net.SplitHostPort(address); host != "localhost" || port != "80" {
		return nil, errors.New("no such pod")
	}
	return (&net.Dialer{}).DialContext(ctx, network, fmt.Sprint("localhost:", n.at))
}

func TestPortForwardBeginsInThePodsNetwork(t *testing.T) {
	n := networked{newSessions(t), echo(t)}
	checkPortForward(t, n, n.find, 80)
}

func TestPortForwardByProxy(t *testing.T) {
	c := newContainers(t)
	checkPortForward(t, c, c.find, 8080)
}

// checkPortForward sends text to a port and expects it in upper case, over SPDY and over SPDY in a
// WebSocket.
func checkPortForward(t *testing.T, rt runtime.Runtime, find nodeserver.PodFinder, port int) {
	u, err := url.Parse(serveStreams(t, rt, find) + "/portForward/ns/web")
	require.NoError(t, err)
	transport, upgrader, err := clientspdy.RoundTripperFor(&rest.Config{})
	require.NoError(t, err)
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(u, &rest.Config{})
	require.NoError(t, err)
	for i, dialer := range listOf(clientspdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", u), tunnel) {
		t.Run(protocols[1-i], func(t *testing.T) {
			stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			var errOut strings.Builder
			forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(port)}, stop, ready, io.Discard, &errOut)
			require.NoError(t, err)
			go func() { ended <- forwarder.ForwardPorts() }()
			select {
			case <-ready:
			case err := <-ended:
				require.NoError(t, err, "the connection is accepted")
			}
			ports, err := forwarder.GetPorts()
			require.NoError(t, err)
			text := strings.Repeat("hello ", 100_000)
			for range 3 {
				conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
				require.NoError(t, err)
				go func() {
					_, _ = conn.Write([]byte(text)) // the answer shows an error
					_ = conn.(*net.TCPConn).CloseWrite()
				}()
				answer, err := io.ReadAll(conn)
				require.NoError(t, err)
				assert.True(t, strings.ToUpper(text) == string(answer), "%d bytes came back of %d", len(answer), len(text))
				conn.Close()
			}
			close(stop)
			require.NoError(t, <-ended)
			assert.Empty(t, errOut.String())
		})
	}
}

// listOf infers the type of dialers, whose package is deprecated, and which client-go still takes.
func listOf[T any](all ...T) []T { return all }

// Nothing is left of hostile clients of a runtime without a stream server.
func TestHostileClientsOfSessions(t *testing.T) {
	s := newSessions(t)
	peers := maps.Clone(hostile)
	peers["leaves while streams are opened"] = leavesWhileOpening
	checkHostile(t, s, s.find, s.running, peers)
}

// A command that neither reads nor writes ends with its client.
func TestSilentCommandEndsWithItsClient(t *testing.T) {
	s := newSessions(t)
	h := newServer(t, nodeserver.Streams(nodeserver.StreamOptions{Pods: s.find, Runtime: s}))
	server := httptest.NewServer(h)
	defer server.Close()
	for _, protocol := range protocols {
		client := streamer(t, protocol, server.URL+"/exec/ns/web/main?command=forever&output=1")
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- client.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard}) }()
		require.Eventually(t, func() bool { return s.running() == 1 }, time.Minute, time.Millisecond)
		leave()
		require.Error(t, <-ended)
		require.Eventually(t, func() bool { return s.running() == 0 }, time.Minute, time.Millisecond)
	}
}
