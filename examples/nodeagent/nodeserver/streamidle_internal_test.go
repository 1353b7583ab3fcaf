// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

// frame is a frame of a protocol, and whether it is data.
type frame struct {
	bytes []byte
	data  bool
}

func spdyFrame(r *rand.Rand) frame {
	payload := make([]byte, r.IntN(300))
	f := frame{binary.BigEndian.AppendUint32([]byte{0x80, 3, 0, byte(1 + r.IntN(9))}, uint32(len(payload))), true}
	switch r.IntN(3) {
	case 0:
		f = frame{[]byte{0x80, 3, 0, 6, 0, 0, 0, 4}, false}
		payload = make([]byte, 4)
	case 1:
		f.bytes = append([]byte{0, 3, 0, 6}, f.bytes[4:]...) // of stream 196614, not a ping
	default:
		f.data = f.bytes[3] != 6
	}
	f.bytes = append(f.bytes, payload...)
	return f
}

func webSocketFrame(r *rand.Rand) frame {
	opcode, size := []byte{1, 2, 8, 9, 10}[r.IntN(5)], []int{0, 1, 125, 126, 127, 65535, 65536}[r.IntN(7)]
	if opcode >= 8 {
		size = min(size, 125)
	}
	masked := byte(r.IntN(2)) << 7
	f := frame{[]byte{0x80 | opcode}, opcode < 9}
	switch {
	case size < 126:
		f.bytes = append(f.bytes, masked|byte(size))
	case size < 1<<16:
		f.bytes = binary.BigEndian.AppendUint16(append(f.bytes, masked|126), uint16(size))
	default:
		f.bytes = binary.BigEndian.AppendUint64(append(f.bytes, masked|127), uint64(size))
	}
	if masked != 0 {
		f.bytes = append(f.bytes, 1, 2, 3, 4)
	}
	f.bytes = append(f.bytes, make([]byte, size)...)
	return f
}

// However a connection is cut into reads, data is found in the reads that end a header of a frame with
// data or have bytes of its payload, and in no others.
func TestFramesTellDataFromPings(t *testing.T) {
	for name, p := range map[string]struct {
		frame func(*rand.Rand) frame
		make  func() *frames
	}{
		"SPDY":      {spdyFrame, func() *frames { return &frames{parse: spdyHeader} }},
		"WebSocket": {webSocketFrame, func() *frames { return &frames{parse: webSocketHeader} }},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(300) {
				r := rand.New(rand.NewPCG(seed, 1))
				var stream []byte
				var isData []bool // by byte, where the header counts with its last byte
				for range 20 {
					f := p.frame(r)
					header := 2
					switch {
					case name == "SPDY":
						header = 8
					case f.bytes[1]&0x7f == 126:
						header = 4
					case f.bytes[1]&0x7f == 127:
						header = 10
					}
					if name != "SPDY" && f.bytes[1]&0x80 != 0 {
						header += 4
					}
					for i := range f.bytes {
						isData = append(isData, f.data && i >= header-1)
					}
					stream = append(stream, f.bytes...)
				}
				counted := p.make()
				for at := 0; at < len(stream); {
					n := min(1+r.IntN([]int{1, 10, 100, 100_000}[r.IntN(4)]), len(stream)-at)
					want := false
					for _, data := range isData[at : at+n] {
						want = want || data
					}
					require.Equal(t, want, counted.data(stream[at:at+n]), "seed %d, bytes %d to %d", seed, at, at+n)
					at += n
				}
			}
		})
	}
}

// Lengths of a hostile client do no harm.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0x82, 0xff, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 1})
	f.Add([]byte{0x80, 3, 0, 6, 255, 255, 255, 255, 0})
	f.Fuzz(func(_ *testing.T, stream []byte) {
		for _, counted := range []*frames{&frames{parse: spdyHeader}, &frames{parse: webSocketHeader}} {
			for len(stream) > 0 {
				n := 1 + int(stream[0])%len(stream)
				counted.data(stream[:n])
				stream = stream[n:]
			}
		}
	})
}

// A session goes on while its data moves, in either direction, and ends when none has moved for the
// limit.
func TestSessionsEndWithoutData(t *testing.T) {
	const limit = time.Minute
	for name, use := range map[string]func(s runtime.Session){
		"input":  func(s runtime.Session) { _, _ = s.Stdin.Read(make([]byte, 1)) },
		"output": func(s runtime.Session) { _, _ = s.Stdout.Write([]byte("x")) },
		"errors": func(s runtime.Session) { _, _ = s.Stderr.Write([]byte("x")) },
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			run := execFunc(func(ctx context.Context, s runtime.Session) error {
				for range 10 {
					time.Sleep(limit - 1)
					use(s)
				}
				<-ctx.Done()
				return ctx.Err()
			}).whileUsed(limit)
			endless := readerFunc(func(p []byte) (int, error) { return len(p), nil })
			err := run(t.Context(), runtime.Session{Stdin: endless, Stdout: io.Discard, Stderr: io.Discard})
			require.EqualError(t, err, "the session was ended: no data for 1m0s (streamingConnectionIdleTimeout)")
			assert.Equal(t, 11*limit-10, time.Since(began), name)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithTimeout(t.Context(), 1000*time.Hour)
		defer leave()
		wait := execFunc(func(ctx context.Context, _ runtime.Session) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, wait.whileUsed(-1)(ctx, runtime.Session{}), context.DeadlineExceeded, "without a limit")
		require.NoError(t, execFunc(func(_ context.Context, s runtime.Session) error {
			assert.True(t, s.Stdin == nil && s.Stdout == nil && s.Stderr == nil, "a stream that was not asked for")
			return nil
		}).whileUsed(limit)(t.Context(), runtime.Session{}))
		time.Sleep(2 * limit) // the timer of a session that has ended does nothing
	})
}

// Forwarded connections go on while data moves, and end although pings do.
func TestForwardedConnectionsEndWithoutData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		client, ours := net.Pipe()
		theirs, backend := net.Pipe()
		began := time.Now()
		var peers sync.WaitGroup
		peers.Go(func() { _, _ = io.Copy(io.Discard, backend) })
		peers.Go(func() {
			for i := 0; ; i++ {
				time.Sleep(limit / 2)
				message := []byte{0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1}
				if i < 10 {
					message = []byte{0, 0, 0, 1, 0, 0, 0, 1, 'x'}
				}
				if _, err := client.Write(message); err != nil {
					return
				}
			}
		})
		ctx, used, stop := whileUsed(t.Context(), limit)
		splice(ctx, &countedConn{ours, &frames{parse: spdyHeader}, used}, &countedConn{theirs, &frames{parse: spdyHeader}, used})
		require.Error(t, stop(nil))
		assert.Equal(t, 6*limit, time.Since(began), "the last data was after five minutes")
		client.Close()
		backend.Close()
		peers.Wait()
	})
}
