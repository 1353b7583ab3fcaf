// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"

	"github.com/keelson-dev/keelson/internal/lifecycle"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/logs"
)

// local serves streams of a runtime that has no stream server of its own: commands run in a session
// of the runtime, attach shows the log from now on, and port-forward dials localhost, which containers
// without a network of their own share, and then the pod's addresses.
type local struct {
	runtime runtime.Runtime
	execer  runtime.SessionExecer
	idle    time.Duration
}

// streamPatience is the time that a client of SPDY has for opening its streams. The kubelet waits for
// 30 s. Upstream's package waits as long for a client that has left, and so does Server.Close.
const streamPatience = 5 * time.Second

// noTimeout leaves the end of idle connections to idleTimer: upstream's packages count pings as data.
const noTimeout = 0

func (l *local) exec(w http.ResponseWriter, r *http.Request, _ *v1.Pod, c *runtime.ContainerStatus, cmd []string, want runtime.Streams) error {
	if !httpstream.IsUpgradeRequest(r) {
		return errNoUpgrade
	}
	run := execFunc(func(ctx context.Context, s runtime.Session) error {
		code, err := l.execer.ExecSession(ctx, c.ID, cmd, s)
		if err == nil && code != 0 {
			err = utilexec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: code}
		}
		return err
	}).whileUsed(l.idle)
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		serveV5(w, r, optionsOf(want), run.explain("error executing command in container"))
		return nil
	}
	watched, r, end := watchClient(w, r)
	defer end()
	remotecommand.ServeExec(watched, r, run, "", "", "", nil, optionsOf(want), noTimeout, streamPatience, remotecommand.SupportedStreamingProtocols)
	return nil
}

func (l *local) attach(w http.ResponseWriter, r *http.Request, pod *v1.Pod, c *runtime.ContainerStatus, want runtime.Streams) error {
	switch {
	case !httpstream.IsUpgradeRequest(r):
		return errNoUpgrade
	case want.Stdin:
		return fmt.Errorf("attach: containers of the %s runtime have no standard input: %w", l.runtime.Name(), runtime.ErrUnsupported)
	case c.LogPath == "":
		return errors.New("attach: the container has no log")
	}
	show := execFunc(func(ctx context.Context, s runtime.Session) error {
		none := int64(0)
		_, err := logs.Read(ctx, logs.Request{
			Path: c.LogPath, Options: logs.Options{Follow: true, Tail: &none}, Stdout: s.Stdout, Stderr: s.Stderr,
			Running: logs.Running(l.runtime, pod.UID, c.ID),
		})
		return err
	}).whileUsed(l.idle)
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		serveV5(w, r, optionsOf(want), show.explain("error attaching to container"))
		return nil
	}
	watched, r, end := watchClient(w, r)
	defer end()
	remotecommand.ServeAttach(watched, r, show, "", "", "", optionsOf(want), noTimeout, streamPatience, remotecommand.SupportedStreamingProtocols)
	return nil
}

func (l *local) portForward(w http.ResponseWriter, r *http.Request, pod *v1.Pod, sandbox *runtime.SandboxStatus, ports []int32) error {
	if !httpstream.IsUpgradeRequest(r) {
		return errNoUpgrade
	}
	watched, r, end := watchClient(w, r)
	defer end()
	ctx, used, stop := whileUsed(r.Context(), l.idle)
	defer func() { _ = stop(nil) }() // the client sees the end of the connection
	d := &dialer{ctx: ctx, used: used, hosts: append([]string{"localhost"}, sandbox.IPs...), connect: (&net.Dialer{}).DialContext}
	if pods, ok := l.runtime.(runtime.PodDialer); ok {
		d.connect = func(ctx context.Context, network, address string) (net.Conn, error) {
			return pods.DialPod(ctx, pod.UID, network, address)
		}
	}
	defer context.AfterFunc(ctx, func() {
		d.connections.Close()
		end()
	})()
	portforward.ServePortForward(watched, r, d, pod.Name, string(pod.UID), &portforward.V4Options{Ports: ports},
		noTimeout, streamPatience, portforward.SupportedProtocols)
	end()
	d.connections.Close()
	return nil
}

func optionsOf(s runtime.Streams) *remotecommand.Options {
	return &remotecommand.Options{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr && !s.TTY, TTY: s.TTY}
}

// execFunc runs a session. It implements the interfaces of package remotecommand.
type execFunc func(context.Context, runtime.Session) error

// explain returns an execFunc that adds the failed action to errors, except to exit codes.
func (f execFunc) explain(what string) execFunc {
	return func(ctx context.Context, s runtime.Session) error {
		err := f(ctx, s)
		if _, ok := errors.AsType[utilexec.ExitError](err); ok || err == nil {
			return err
		}
		return fmt.Errorf("%s: %w", what, err)
	}
}

// ExecInContainer implements remotecommand.Executor.
func (f execFunc) ExecInContainer(ctx context.Context, _, _, _ string, _ []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	return f.AttachContainer(ctx, "", "", "", in, out, errOut, tty, resize)
}

// AttachContainer implements remotecommand.Attacher.
func (f execFunc) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	s := runtime.Session{Stdin: in, TTY: tty}
	if out != nil {
		s.Stdout = sessionWriter{ctx, out}
	}
	if errOut != nil {
		s.Stderr = sessionWriter{ctx, errOut}
	}
	if resize == nil {
		return f(ctx, s)
	}
	sizes := make(chan runtime.TerminalSize)
	s.Resize = sizes
	go func() { // ends with the connection, which is closed after the session
		defer close(sizes)
		for size := range resize {
			select {
			case sizes <- runtime.TerminalSize{Width: size.Width, Height: size.Height}:
			case <-ctx.Done():
			}
		}
	}()
	return f(ctx, s)
}

// sessionWriter is an output of a session. Writes fail after ctx has ended.
type sessionWriter struct {
	ctx context.Context // of the client's connection
	io.Writer
}

func (w sessionWriter) Write(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.Writer.Write(p)
}

// dialer connects streams with the ports of a pod. It implements portforward.PortForwarder.
type dialer struct {
	ctx   context.Context // of the client's connection; upstream's calls have none
	hosts []string        // in the order of trying
	used  *idleTimer

	connect func(ctx context.Context, network, address string) (net.Conn, error)

	connections lifecycle.Calls // closed after the end of ctx
}

// dialPatience is how long a port may take to accept a connection.
const dialPatience = 10 * time.Second

// PortForward implements portforward.PortForwarder. Each direction ends separately.
func (d *dialer) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	if !d.connections.Begin() {
		return net.ErrClosed
	}
	defer d.connections.End()
	conn, err := d.dial(strconv.Itoa(int(port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(d.ctx, func() { conn.Close() })()
	sent := make(chan struct{})
	go func() { // ends with the stream, which ends with the client's connection at the latest
		defer close(sent)
		_, _ = io.Copy(conn, d.used.reader(stream)) // a pod that does not read ends the other direction, too
		_ = conn.CloseWrite()
	}()
	_, err = io.Copy(d.used.writer(stream), conn)
	_ = stream.Close() // the client learns of the end
	select {
	case <-sent:
	case <-time.After(lingerTime):
	case <-d.ctx.Done():
	}
	if isNormalEnd(err) || d.ctx.Err() != nil {
		return nil
	}
	return err
}

// dial tries the hosts in order, each over IPv4 first. The error is that of the first host.
func (d *dialer) dial(port string) (conn *net.TCPConn, err error) {
	for _, host := range d.hosts {
		for _, network := range []string{"tcp4", "tcp6"} {
			ctx, cancel := context.WithTimeout(d.ctx, dialPatience)
			c, failed := d.connect(ctx, network, net.JoinHostPort(host, port))
			cancel()
			if failed == nil {
				return c.(*net.TCPConn), nil
			}
			err = cmp.Or(err, failed)
		}
	}
	return nil, err
}

// isNormalEnd reports whether an error is how programs end connections, or the end of the session.
func isNormalEnd(err error) bool {
	return err == nil || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}
