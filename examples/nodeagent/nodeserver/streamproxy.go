// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/keelson-dev/keelson/runtime"
)

// streamProxy connects clients with the streams that a runtime serves itself.
type streamProxy struct {
	streamer runtime.Streamer
	idle     time.Duration
}

func (p *streamProxy) exec(w http.ResponseWriter, r *http.Request, _ *v1.Pod, c *runtime.ContainerStatus, cmd []string, want runtime.Streams) error {
	to, err := p.streamer.ExecURL(r.Context(), c.ID, cmd, want)
	if err != nil {
		return err
	}
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		return translate(w, r, to, want, p.idle)
	}
	return forward(w, r, to, p.idle)
}

func (p *streamProxy) attach(w http.ResponseWriter, r *http.Request, _ *v1.Pod, c *runtime.ContainerStatus, want runtime.Streams) error {
	to, err := p.streamer.AttachURL(r.Context(), c.ID, want)
	if err != nil {
		return err
	}
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		return translate(w, r, to, want, p.idle)
	}
	return forward(w, r, to, p.idle)
}

func (p *streamProxy) portForward(w http.ResponseWriter, r *http.Request, _ *v1.Pod, sandbox *runtime.SandboxStatus, ports []int32) error {
	to, err := p.streamer.PortForwardURL(r.Context(), sandbox.ID, ports)
	if err != nil {
		return err
	}
	return forward(w, r, to, p.idle)
}

// runtimePatience is the time that a runtime has for its answer to an upgrade request, and for the
// text of a refusal.
const runtimePatience = 10 * time.Second

// maxRefusal is the number of bytes of a runtime's refusal that reach the client.
const maxRefusal = 64 << 10

// forward sends the upgrade request to the runtime and then copies bytes between both connections,
// until no data has moved for a time.
func forward(w http.ResponseWriter, r *http.Request, to *url.URL, idle time.Duration) error {
	if !httpstream.IsUpgradeRequest(r) {
		return errNoUpgrade
	}
	backend, response, err := dialRuntime(r.Context(), r.Method, to, upgradeHeaders(r.Header))
	if err != nil {
		return err
	}
	defer backend.Close()
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil // the client has been told, or has left
	}
	defer conn.Close()
	if conn.SetDeadline(time.Time{}) == nil {
		ctx, used, stop := whileUsed(r.Context(), idle)
		ours, theirs := framesOf(response), framesOf(response)
		splice(ctx, &countedConn{&buffering{conn, buffered}, ours, used}, &countedConn{backend, theirs, used})
		_ = stop(nil) // the client sees the end of the connection
	}
	return nil
}

// framesOf returns the frames of an upgraded connection, at its begin.
func framesOf(upgraded *http.Response) *frames {
	if strings.EqualFold(upgraded.Header.Get(httpstream.HeaderUpgrade), "websocket") {
		return &frames{parse: webSocketHeader}
	}
	return &frames{parse: spdyHeader}
}

// errNoUpgrade has the kubelet's text.
var errNoUpgrade = fmt.Errorf("%s request required", "Upgrade")

// upgradeHeaders returns the headers that the runtime needs. Other headers, such as the client's token,
// may be secret.
func upgradeHeaders(all http.Header) http.Header {
	kept := http.Header{}
	for _, name := range []string{
		"Connection", "Upgrade", httpstream.HeaderProtocolVersion,
		"Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions",
	} {
		if values := all.Values(name); len(values) > 0 {
			kept[http.CanonicalHeaderKey(name)] = values
		}
	}
	return kept
}

// refusedError is a runtime's refusal of an upgrade request.
type refusedError struct {
	code int
	text string
}

func (e *refusedError) Error() string { return e.text }

// dialRuntime sends an upgrade request. If the runtime accepts, the response has no body. A refusal
// is a *refusedError. Errors do not contain the URL, which grants access.
func dialRuntime(ctx context.Context, method string, to *url.URL, header http.Header) (backend *buffering, response *http.Response, err error) {
	ctx, cancel := context.WithTimeout(ctx, runtimePatience)
	defer cancel()
	var conn net.Conn
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { conn = got.Conn }})
	request, err := http.NewRequestWithContext(ctx, method, to.String(), nil)
	if err != nil {
		return nil, nil, errors.New("the runtime's URL is invalid")
	}
	request.Header = header
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(true) // connections of HTTP/2 cannot be upgraded
	response, err = transport.RoundTrip(request)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the runtime's stream server: %w", err)
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		backend = &buffering{conn, response.Body}
		response.Body = http.NoBody
		return backend, response, nil
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusBadRequest {
		return nil, nil, fmt.Errorf("the runtime's stream server answered an upgrade request with %d", response.StatusCode)
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // within runtimePatience; a part is better than nothing
	return nil, nil, &refusedError{response.StatusCode, string(text)}
}

// buffering is a connection whose first bytes are in a buffer.
type buffering struct {
	net.Conn
	in io.Reader
}

func (b *buffering) Read(p []byte) (int, error) { return b.in.Read(p) }

// CloseWrite implements halfCloser if the connection does.
func (b *buffering) CloseWrite() error {
	if half, ok := b.Conn.(halfCloser); ok {
		return half.CloseWrite()
	}
	return b.Close()
}

// halfCloser is a connection that can tell the peer that no more bytes come.
type halfCloser interface{ CloseWrite() error }

// lingerTime is how long a connection stays open after one side has ended: the other side may still
// have bytes to send.
const lingerTime = 10 * time.Second

// splice copies bytes in both directions until both sides have ended, one side has ended for
// lingerTime, or ctx ends. Both connections are closed when splice returns.
func splice(ctx context.Context, a, b io.ReadWriteCloser) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closeBoth := func() {
		a.Close()
		b.Close()
	}
	defer closeBoth()
	defer context.AfterFunc(ctx, closeBoth)()
	var both sync.WaitGroup
	copyTo := func(to, from io.ReadWriteCloser) {
		_, err := io.Copy(to, from)
		half, ok := to.(halfCloser)
		if err != nil || !ok || half.CloseWrite() != nil {
			cancel()
			return
		}
		linger := time.AfterFunc(lingerTime, cancel)
		context.AfterFunc(ctx, func() { linger.Stop() })
	}
	both.Go(func() { copyTo(a, b) })
	both.Go(func() { copyTo(b, a) })
	both.Wait()
}
