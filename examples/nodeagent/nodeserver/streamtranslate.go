// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	streamserver "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/keelson-dev/keelson/runtime"
)

// translate connects a client of WebSocket v5 with a runtime, which speaks SPDY.
func translate(w http.ResponseWriter, r *http.Request, to *url.URL, want runtime.Streams, idle time.Duration) error {
	conn, response, err := dialRuntime(r.Context(), http.MethodPost, to, http.Header{
		httpstream.HeaderConnection: {httpstream.HeaderUpgrade}, httpstream.HeaderUpgrade: {spdy.HeaderSpdy31},
		httpstream.HeaderProtocolVersion: {streamserver.StreamProtocolV4Name},
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	backend := &spdyBackend{conn: conn, response: response}
	serveV5(w, r, optionsOf(want), execFunc(backend.run).whileUsed(idle))
	return nil
}

// spdyBackend is a connection that a runtime has upgraded to SPDY. spdyBackend implements
// httpstream.UpgradeRoundTripper without a request, because the upgrade has been requested before.
type spdyBackend struct {
	conn     *buffering
	response *http.Response

	opening sync.Mutex // while the runtime accepts a stream
	closed  bool       // guarded by opening
}

// run runs a session over the connection. When ctx ends, the connection is closed abruptly: a runtime
// that is sent a GOAWAY frame reads no further, and does not notice the end.
func (b *spdyBackend) run(ctx context.Context, s runtime.Session) error {
	closed, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		b.opening.Lock()
		defer b.opening.Unlock()
		b.closed = true
		b.conn.Close()
		cancel()
	})()
	client, err := remotecommand.NewSPDYExecutorForTransports(b, clientspdy.NewUpgraderForStreaming(b), http.MethodPost, &url.URL{Scheme: "http", Host: "runtime"})
	if err != nil {
		return err
	}
	opts := remotecommand.StreamOptions{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, Tty: s.TTY}
	if s.Resize != nil {
		opts.TerminalSizeQueue = sizeQueue(s.Resize)
	}
	return client.StreamWithContext(closed, opts)
}

// RoundTrip implements http.RoundTripper.
func (b *spdyBackend) RoundTrip(*http.Request) (*http.Response, error) { return b.response, nil }

// pingPeriod is the time between pings to the runtime, as in the kubelet.
const pingPeriod = 5 * time.Second

// NewConnection implements httpstream.UpgradeRoundTripper.
func (b *spdyBackend) NewConnection(*http.Response) (httpstream.Connection, error) {
	conn, err := spdy.NewClientConnectionWithPings(b.conn, pingPeriod)
	return &openedWhole{conn, b}, err
}

// openedWhole is a connection that is not closed while the runtime accepts a stream. A runtime that
// cannot send its answer would wait for ever when it writes to the stream, and keep the command. A
// stream that is created after the end would keep goroutines of this side.
type openedWhole struct {
	httpstream.Connection
	backend *spdyBackend
}

// CreateStream implements httpstream.Connection.
func (c *openedWhole) CreateStream(header http.Header) (httpstream.Stream, error) {
	c.backend.opening.Lock()
	defer c.backend.opening.Unlock()
	if c.backend.closed {
		return nil, net.ErrClosed
	}
	return c.Connection.CreateStream(header)
}

// sizeQueue implements remotecommand.TerminalSizeQueue.
type sizeQueue <-chan runtime.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (q sizeQueue) Next() *remotecommand.TerminalSize {
	size, ok := <-q
	if !ok {
		return nil
	}
	return &remotecommand.TerminalSize{Width: size.Width, Height: size.Height}
}
