// SPDX-License-Identifier: Apache-2.0

package criproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Proxy forwards messages, records calls, and can hold selected calls. Proxy does not decode CRI
// messages: a call is a request with one or more answers. Methods may be called by any goroutine.
type Proxy struct {
	socket   string
	upstream *grpc.ClientConn

	mu     sync.Mutex
	server *grpc.Server
	served chan struct{}
	calls  []Call
	now    int // calls under way
	peak   int // the maximum of now
	holds  []*Hold
}

// Call is a call received by the proxy.
type Call struct {
	Method string // as in "StopContainer"
	// Began is when the request arrived, and Ended when the last answer was forwarded. Ended is
	// zero while the call is in progress.
	Began, Ended time.Time
}

// Hold keeps calls from reaching the runtime.
type Hold struct {
	method   string
	contains string        // in the request
	caught   chan struct{} // closed when the first call is held
	released chan struct{}
	once     sync.Once
	full     bool // holds no further calls
}

// Caught is closed once a call is held.
func (h *Hold) Caught() <-chan struct{} { return h.caught }

// Method returns the name of the held method.
func (h *Hold) Method() string { return h.method }

// frame is an encoded message. frames is its codec.
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

// New returns a proxy that listens on socket and forwards to runtimeSocket. The caller must call
// Close.
func New(socket, runtimeSocket string) (*Proxy, error) {
	upstream, err := grpc.NewClient("unix://"+runtimeSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frames{}), grpc.MaxCallRecvMsgSize(16<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, err
	}
	p := &Proxy{socket: socket, upstream: upstream}
	if err := p.Open(); err != nil {
		return nil, errors.Join(err, upstream.Close())
	}
	return p, nil
}

// Endpoint is the proxy's address, "unix://...".
func (p *Proxy) Endpoint() string { return "unix://" + p.socket }

// Open makes the proxy listen again after Shut.
func (p *Proxy) Open() error {
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(frames{}), grpc.UnknownServiceHandler(p.serve), grpc.MaxRecvMsgSize(16<<20))
	served := make(chan struct{})
	p.mu.Lock()
	p.server, p.served = server, served
	p.mu.Unlock()
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	return nil
}

// Close shuts the proxy for good.
func (p *Proxy) Close() error {
	p.Shut()
	return p.upstream.Close()
}

// Shut ends all calls and connections and leaves no socket, as when a runtime is
// not there.
func (p *Proxy) Shut() {
	p.mu.Lock()
	server, served := p.server, p.served
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		server.Stop()
		<-served
	}
}

// serve forwards one call.
func (p *Proxy) serve(_ any, down grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(down)
	var request frame
	if err := down.RecvMsg(&request); err != nil {
		return err
	}
	held, nth := p.begin(path.Base(name), request.data)
	defer p.end(nth)
	if held != nil {
		select {
		case <-held.released:
		case <-down.Context().Done():
			return status.FromContextError(down.Context().Err()).Err()
		}
	}
	return p.forward(down.Context(), name, &request, down)
}

func (p *Proxy) forward(ctx context.Context, name string, request *frame, down grpc.ServerStream) error {
	if header, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, header) // grpc drops its own headers
	}
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

// endOf returns the error of a stream, or nil at the regular end.
func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// begin records a call and returns the Hold for the call, or nil.
func (p *Proxy) begin(method string, request []byte) (held *Hold, nth int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, Call{Method: method, Began: time.Now()})
	p.now++
	p.peak = max(p.peak, p.now)
	for _, h := range p.holds {
		if !h.full && h.method == method && bytes.Contains(request, []byte(h.contains)) {
			h.once.Do(func() { close(h.caught) })
			return h, len(p.calls) - 1
		}
	}
	return nil, len(p.calls) - 1
}

func (p *Proxy) end(nth int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[nth].Ended = time.Now()
	p.now--
}

// Hold holds calls of method whose requests contain the text contains, such as a pod's UID or a
// container's ID, until Release.
func (p *Proxy) Hold(method, contains string) *Hold {
	h := &Hold{method: method, contains: contains, caught: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
	return h
}

// Limit makes h hold no further calls.
func (p *Proxy) Limit(h *Hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.full = true
}

// Release releases all held calls and removes all holds.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.holds {
		close(h.released)
	}
	p.holds = nil
}

// Since returns the calls that began at or after at, in the order of their start.
func (p *Proxy) Since(at time.Time) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, _ := slices.BinarySearchFunc(p.calls, at, func(c Call, at time.Time) int { return c.Began.Compare(at) })
	return slices.Clone(p.calls[i:])
}

// UnderWay returns how many calls wait for an answer now, and how many did at
// most.
func (p *Proxy) UnderWay() (now, peak int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.peak
}
