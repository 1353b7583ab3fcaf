// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// The channels of Kubernetes' protocol over WebSocket.
const (
	stdin, stdout, stderr, result = 0, 1, 2, 3
)

// idle is a script ending on SIGTERM.
const idle = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"

func TestExecStreams(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("exec-streams", idle)
	p.Spec.HostNetwork = true
	id := n.start(p)
	u, err := n.rt.ExecURL(t.Context(), id, []string{"sh", "-c", "read x; echo got $x; echo oh no >&2; exit 3"},
		runtime.Streams{Stdin: true, Stdout: true, Stderr: true})
	require.NoError(t, err)
	s := connect(t, u)
	s.send(stdin, "hello\n")
	got := s.all()
	assert.Equal(t, "got hello\n", got[stdout])
	assert.Equal(t, "oh no\n", got[stderr])
	assert.Contains(t, got[result], `"NonZeroExitCode"`)
	assert.Contains(t, got[result], `"3"`)

	a, err := http.Get(u.String())
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	assert.Equal(t, http.StatusNotFound, a.StatusCode, "it was good for one connection")
}

func TestExecStreamsOfATerminal(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("exec-tty", idle)
	p.Spec.HostNetwork = true
	id := n.start(p)
	u, err := n.rt.ExecURL(t.Context(), id, []string{"sh", "-c", "test -t 0 && echo out; echo err >&2"},
		runtime.Streams{Stdin: true, Stdout: true, Stderr: true, TTY: true})
	require.NoError(t, err, "that there is no standard error is not the caller's fault")
	got := connect(t, u).all()
	assert.Equal(t, "out\r\nerr\r\n", got[stdout])
	assert.Empty(t, got[stderr])
	assert.Contains(t, got[result], `"Success"`)
}

func TestAttachStreams(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("attach", "trap 'exit 0' TERM; while read x; do echo heard $x; done; sleep 1000")
	p.Spec.HostNetwork = true
	p.Spec.Containers[0].Stdin = true
	id := n.start(p)
	u, err := n.rt.AttachURL(t.Context(), id, runtime.Streams{Stdin: true, Stdout: true, Stderr: true})
	require.NoError(t, err)
	s := connect(t, u)
	s.send(stdin, "one\n")
	s.send(stdin, "two\n")
	s.until(func(got map[byte]string) bool { return strings.Contains(got[stdout], "heard one\nheard two\n") })
}

func TestPortForward(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("ports", "trap 'exit 0' TERM; echo served >/tmp/index.html; httpd -p 8080 -h /tmp; echo end; sleep 1000 & wait")
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 8080}}
	n.start(p)
	st, err := n.rt.PodStatus(t.Context(), p.UID)
	require.NoError(t, err)
	n.output(&st.Containers[0]) // the container listens
	u, err := n.rt.PortForwardURL(t.Context(), st.Sandboxes[0].ID, []int32{8080})
	require.NoError(t, err)
	s := connect(t, u)
	const data = 0 // data of the first port; 1 is for errors of the port
	s.send(data, "GET /index.html HTTP/1.0\r\n\r\n")
	got := s.until(func(got map[byte]string) bool { return strings.Contains(got[data], "served\n") })
	assert.True(t, strings.HasPrefix(got[data], "\x90\x1f"), "it begins with the port")
	assert.Contains(t, got[data], "200 OK")
}

func TestStreamsThatCannotBe(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	all := runtime.Streams{Stdin: true, Stdout: true, Stderr: true}
	p := pod("no-streams", "exit 0")
	p.Spec.HostNetwork = true
	id := n.start(p)
	n.ended(p)
	_, err := n.rt.ExecURL(t.Context(), id, []string{"true"}, all)
	assert.Error(t, err, "it has ended")
	_, err = n.rt.AttachURL(t.Context(), id, all)
	assert.Error(t, err, "it has ended")
	st, err := n.rt.PodStatus(t.Context(), p.UID)
	require.NoError(t, err)
	require.NoError(t, n.rt.StopSandbox(t.Context(), st.Sandboxes[0].ID))
	_, err = n.rt.PortForwardURL(t.Context(), st.Sandboxes[0].ID, []int32{80})
	assert.Error(t, err, "it is stopped")
}
