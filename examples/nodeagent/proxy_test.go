// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// proxy stands between an agent and a container runtime. It hands on bytes,
// counts calls, and can keep some of them waiting. It knows no CRI: a call is a
// request and one or more answers.
type proxy struct {
	socket   string
	upstream *grpc.ClientConn

	mu     sync.Mutex
	server *grpc.Server
	served chan struct{}
	calls  []call
	now    int // calls under way
	peak   int // the most of them at a time
	holds  []*hold
}

// call is one that reached the proxy.
type call struct {
	at     time.Time
	method string // as in "StopContainer"
}

// hold is what keeps calls from reaching the runtime.
type hold struct {
	method   string
	contains string        // in the request
	caught   chan struct{} // closed when there is one
	released chan struct{}
	once     sync.Once
	full     bool // it holds no more
}

// frame is a message as it is on the wire. It is its own codec.
type frame struct{ data []byte }

type frames struct{}

func (frames) Name() string { return "proto" }

func (frames) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(*frame).data)}, nil
}

func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	v.(*frame).data = data.Materialize()
	return nil
}

// newProxy returns one that listens, until the test ends, on a socket of its own.
func newProxy(t *testing.T, runtimeSocket string) *proxy {
	t.Helper()
	upstream, err := grpc.NewClient("unix://"+runtimeSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frames{}), grpc.MaxCallRecvMsgSize(16<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	require.NoError(t, err)
	p := &proxy{socket: filepath.Join(t.TempDir(), "cri.sock"), upstream: upstream}
	p.open(t)
	t.Cleanup(func() {
		p.close()
		require.NoError(t, upstream.Close())
	})
	return p
}

func (p *proxy) endpoint() string { return "unix://" + p.socket }

// open makes the proxy listen.
func (p *proxy) open(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("unix", p.socket)
	require.NoError(t, err)
	server := grpc.NewServer(grpc.ForceServerCodecV2(frames{}), grpc.UnknownServiceHandler(p.serve), grpc.MaxRecvMsgSize(16<<20))
	served := make(chan struct{})
	p.mu.Lock()
	p.server, p.served = server, served
	p.mu.Unlock()
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
}

// close ends all calls and connections and leaves no socket, as when a runtime is
// not there.
func (p *proxy) close() {
	p.mu.Lock()
	server, served := p.server, p.served
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		server.Stop()
		<-served
	}
}

// serve hands one call on.
func (p *proxy) serve(_ any, down grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(down)
	var request frame
	if err := down.RecvMsg(&request); err != nil {
		return err
	}
	held := p.begin(path.Base(name), request.data)
	defer p.end()
	if held != nil {
		select {
		case <-held.released:
		case <-down.Context().Done():
			return status.FromContextError(down.Context().Err()).Err()
		}
	}
	return p.forward(down.Context(), name, &request, down)
}

func (p *proxy) forward(ctx context.Context, name string, request *frame, down grpc.ServerStream) error {
	up, err := p.upstream.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, name)
	if err != nil {
		return err
	}
	if err := errors.Join(up.SendMsg(request), up.CloseSend()); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	for {
		var answer frame
		if err := up.RecvMsg(&answer); err != nil {
			return endOf(err)
		}
		if err := down.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// begin counts a call and says what holds it, if anything does.
func (p *proxy) begin(method string, request []byte) *hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call{time.Now(), method})
	p.now++
	p.peak = max(p.peak, p.now)
	for _, h := range p.holds {
		if !h.full && h.method == method && bytes.Contains(request, []byte(h.contains)) {
			h.once.Do(func() { close(h.caught) })
			return h
		}
	}
	return nil
}

func (p *proxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now--
}

// hold keeps calls from the runtime until release, those whose requests contain
// some text: a pod's UID, a container's ID.
func (p *proxy) hold(method, contains string) *hold {
	h := &hold{method: method, contains: contains, caught: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
	return h
}

// limit keeps h from holding more than it has.
func (p *proxy) limit(h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.full = true
}

// release lets all go that is held.
func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.holds {
		close(h.released)
	}
	p.holds = nil
}

// since counts the calls that began at or after at.
func (p *proxy) since(at time.Time) (n int, byMethod map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	byMethod = make(map[string]int)
	for _, c := range p.calls {
		if !c.at.Before(at) {
			n++
			byMethod[c.method]++
		}
	}
	return n, byMethod
}

// underWay returns how many calls wait for an answer now, and how many did at
// most.
func (p *proxy) underWay() (now, peak int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.peak
}

// waitCaught waits for a call that is held.
func (h *hold) waitCaught(s *station) {
	s.Helper()
	select {
	case <-h.caught:
	case <-time.After(patience):
		s.Fatalf("not within %s: a %s to be held", patience, h.method)
	}
}
