// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// maxLine is the longest text of one log entry in bytes, as in container engines. A longer line
// becomes several entries, and all except the last are tagged P.
const maxLine = 16 << 10

// drainTime bounds the wait for output after the kill of all processes. Only a process that cannot
// be killed holds a pipe longer.
const drainTime = 2 * time.Second

// criLog copies a container's output to its log in the CRI's format:
// "<RFC3339Nano> <stdout|stderr> <P|F> <text>\n".
type criLog struct {
	copies sync.WaitGroup
	mu     struct {
		sync.Mutex
		out  io.Writer
		last []byte
	}
	keep    int // length of mu.last in bytes of raw output
	file    *logFile
	streams []*stream
	newest  atomic.Int64 // nanoseconds of the newest output; busy while output is being written
}

// busy stands for output that is being written.
const busy = math.MaxInt64

// stream is one output of a container. While a goroutine copies the stream, the stream is its own.
type stream struct {
	entries
	from  *os.File
	ended bool // from is closed
}

// newCRILog returns a log that writes whole entries to out and keeps the last bytes of the
// output for tail.
func newCRILog(out io.Writer, keep int) *criLog {
	l := &criLog{keep: keep}
	l.mu.out = out
	return l
}

// copy starts a goroutine that copies a stream until the end, or until pause. wait waits for the
// goroutine.
func (l *criLog) copy(st *stream) {
	l.streams = append(l.streams, st)
	l.begin(st)
}

func (l *criLog) begin(st *stream) {
	if st.ended {
		return
	}
	l.copies.Go(func() {
		buf := make([]byte, maxLine)
		for {
			n, err := st.from.Read(buf)
			if n > 0 {
				l.newest.Store(busy)
				st.add(time.Now(), buf[:n])
				l.write(buf[:n], st.take())
				l.newest.Store(time.Now().UnixNano())
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return // pause
			}
			if err != nil {
				st.end(time.Now())
				l.write(nil, st.take())
				_ = st.from.Close()
				st.ended = true
				return
			}
		}
	})
}

// quiet returns the time since the newest output. It is 0 during a write, which may take long.
func (l *criLog) quiet() time.Duration {
	newest := l.newest.Load()
	if newest == busy {
		return 0
	}
	return time.Since(time.Unix(0, newest))
}

// pause stops the copying. No output is lost, because it stays in the pipes.
func (l *criLog) pause() {
	for _, st := range l.streams {
		_ = st.from.SetReadDeadline(time.Unix(1, 0)) // fails if the stream has ended
	}
	l.copies.Wait()
}

// resume continues the copying after pause.
func (l *criLog) resume() {
	for _, st := range l.streams {
		_ = st.from.SetReadDeadline(time.Time{})
		l.begin(st)
	}
}

// write appends whole entries with one write, so that the streams do not mix within a line. On a
// full disk, output is lost, because the container must not block. logFile reports the loss.
func (l *criLog) write(raw, lines []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keep > 0 {
		l.mu.last = append(l.mu.last, raw...)
		l.mu.last = l.mu.last[max(0, len(l.mu.last)-l.keep):]
	}
	if len(lines) > 0 {
		_, _ = l.mu.out.Write(lines)
	}
}

// wait returns when both streams have ended and are written, or after drainTime.
func (l *criLog) wait() {
	done := make(chan struct{})
	go func() { l.copies.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(drainTime):
	}
}

// tail returns the end of the raw output of both streams.
func (l *criLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.mu.last)
}

// entries turns the output of one stream into log entries. Pure.
type entries struct {
	stream string
	part   []byte // the incomplete line, at most maxLine bytes
	open   bool   // the last entry was tagged P
	out    []byte
}

// add appends output.
func (e *entries) add(now time.Time, data []byte) {
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		data = rest
		for len(line) > 0 {
			n := min(len(line), maxLine-len(e.part))
			e.part = append(e.part, line[:n]...)
			line = line[n:]
			if len(e.part) == maxLine && (len(line) > 0 || !whole) {
				e.entry(now, 'P')
			}
		}
		if whole {
			e.entry(now, 'F')
		}
	}
}

// end completes a line without a line feed.
func (e *entries) end(now time.Time) {
	if len(e.part) > 0 || e.open {
		e.entry(now, 'F')
	}
}

func (e *entries) entry(now time.Time, tag byte) {
	e.out = now.UTC().AppendFormat(e.out, time.RFC3339Nano)
	e.out = append(e.out, ' ')
	e.out = append(e.out, e.stream...)
	e.out = append(e.out, ' ', tag, ' ')
	e.out = append(e.out, e.part...)
	e.out = append(e.out, '\n')
	e.part, e.open = e.part[:0], tag == 'P'
}

// take returns the entries since the last take. The bytes are valid until the next add or end.
func (e *entries) take() []byte {
	out := e.out
	e.out = e.out[:0]
	return out
}
