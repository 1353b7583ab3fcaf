// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// DefaultIdleTimeout is the default of StreamOptions.IdleTimeout, that of the kubelet's field
// streamingConnectionIdleTimeout.
const DefaultIdleTimeout = 4 * time.Hour

// idleError is the end of a session without data.
type idleError struct{ after time.Duration }

func (e *idleError) Error() string {
	return fmt.Sprintf("the session was ended: no data for %s (streamingConnectionIdleTimeout)", e.after)
}

// idleTimer cancels a context when no data has moved for a time. Keepalive messages of the protocols
// are no data: kubectl sends a ping every five seconds.
type idleTimer struct {
	limit time.Duration
	began time.Time
	moved atomic.Int64 // time of the last data, in nanoseconds after began

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// whileUsed returns a context that ends with an *idleError when the timer's data has not been called
// for limit. stop releases the timer and returns err, or the *idleError if that ended the context.
// Below zero there is no limit.
func whileUsed(ctx context.Context, limit time.Duration) (used context.Context, t *idleTimer, stop func(err error) error) {
	used, cancel := context.WithCancelCause(ctx)
	t = &idleTimer{limit: limit, began: time.Now()}
	if limit > 0 {
		t.mu.Lock()
		t.timer = time.AfterFunc(limit, func() { t.check(cancel) })
		t.mu.Unlock()
	}
	return used, t, func(err error) error {
		t.stop()
		if idle, ok := context.Cause(used).(*idleError); ok {
			err = idle
		}
		cancel(nil)
		return err
	}
}

// check cancels the context, or waits for the rest of the limit if data has moved meanwhile.
func (t *idleTimer) check(cancel context.CancelCauseFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if rest := t.limit - (time.Since(t.began) - time.Duration(t.moved.Load())); rest > 0 {
		t.timer.Reset(rest)
		return
	}
	cancel(&idleError{t.limit})
}

func (t *idleTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// data tells that bytes of a session have moved.
func (t *idleTimer) data() { t.moved.Store(int64(time.Since(t.began))) }

// reader returns a reader of a session's data, or nil for nil.
func (t *idleTimer) reader(r io.Reader) io.Reader {
	if r == nil {
		return nil
	}
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		if n > 0 {
			t.data()
		}
		return n, err
	})
}

// writer returns a writer of a session's data, or nil for nil.
func (t *idleTimer) writer(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return writerFunc(func(p []byte) (int, error) {
		n, err := w.Write(p)
		if n > 0 {
			t.data()
		}
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// whileUsed returns an execFunc that ends its session after limit without data.
func (f execFunc) whileUsed(limit time.Duration) execFunc {
	return func(ctx context.Context, s runtime.Session) error {
		ctx, t, stop := whileUsed(ctx, limit)
		s.Stdin, s.Stdout, s.Stderr = t.reader(s.Stdin), t.writer(s.Stdout), t.writer(s.Stderr)
		return stop(f(ctx, s))
	}
}

// frames tells data from keepalive messages in one direction of a connection, from its beginning.
type frames struct {
	parse  func(header []byte) frameHeader
	header [14]byte // of the present frame
	have   int      // bytes of header
	left   uint64   // bytes of the frame after the header
	ping   bool     // of the frame
}

// frameHeader is what the known bytes of a header tell. payload and ping are valid for a whole header.
type frameHeader struct {
	length  int // of the header
	payload uint64
	ping    bool // the frame is a keepalive message
}

// data reports whether the next bytes of the connection have a byte of a frame that is no keepalive
// message.
func (f *frames) data(p []byte) (found bool) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(p)))
			f.left, p = f.left-n, p[n:]
			found = found || !f.ping
			continue
		}
		n := copy(f.header[f.have:f.parse(f.header[:f.have]).length], p)
		f.have, p = f.have+n, p[n:]
		h := f.parse(f.header[:f.have])
		if f.have < h.length {
			continue
		}
		f.have, f.left, f.ping = 0, h.payload, h.ping
		found = found || !f.ping
	}
	return found
}

// spdyHeader parses a header of SPDY/3.1: eight bytes, the last three of them the length. The first
// two of a ping are 80 03, then comes the type 00 06.
func spdyHeader(h []byte) frameHeader {
	f := frameHeader{length: 8}
	if len(h) == f.length {
		f.payload = uint64(h[5])<<16 | uint64(h[6])<<8 | uint64(h[7])
		f.ping = h[0]&0x80 != 0 && h[2] == 0 && h[3] == 6
	}
	return f
}

// webSocketHeader parses a header of a WebSocket (RFC 6455). Pings and pongs are keepalive messages.
func webSocketHeader(h []byte) frameHeader {
	f := frameHeader{length: 2}
	if len(h) < 2 {
		return f
	}
	f.ping = h[0]&0x0f == 0x9 || h[0]&0x0f == 0xa
	f.payload = uint64(h[1] & 0x7f)
	if extra := map[uint64]int{126: 2, 127: 8}[f.payload]; extra > 0 {
		f.length += extra
		f.payload = 0
		for _, b := range h[2:min(f.length, len(h))] {
			f.payload = f.payload<<8 | uint64(b)
		}
	}
	if h[1]&0x80 != 0 {
		f.length += 4 // the mask
	}
	return f
}

// countedConn is a connection of a session, for sessions that forward unchanged bytes.
type countedConn struct {
	io.ReadWriteCloser
	in    *frames
	timer *idleTimer
}

// Read implements io.Reader.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	if c.in.data(p[:n]) {
		c.timer.data()
	}
	return n, err
}

// CloseWrite implements halfCloser.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.ReadWriteCloser.(halfCloser); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
