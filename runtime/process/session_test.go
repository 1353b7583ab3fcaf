// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

const sleeping = "trap 'exit 0' TERM; while :; do sleep 0.1; done"

func TestSessions(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(sleeping)
	pod.Spec.Containers[0].Command = []string{"env", "COLOUR=blue", "/bin/sh", "-c", sleeping}
	_, id := e.run(pod)
	run := func(s runtime.Session, script string) (int, error) {
		return e.rt.ExecSession(t.Context(), id, shell(script), s)
	}
	var out, errOut bytes.Buffer
	text := strings.Repeat("through standard input and back\n", 1<<15)

	code, err := run(runtime.Session{Stdin: strings.NewReader(text), Stdout: &out, Stderr: &errOut}, "cat; echo err >&2; exit 3")
	require.NoError(t, err)
	assert.Equal(t, 3, code)
	assert.Equal(t, text, out.String(), "1 MiB, and the end of the input")
	assert.Equal(t, "err\n", errOut.String())

	t.Log("the end of the command is the end of the session, whatever the input does")
	never, w := io.Pipe()
	defer w.Close()
	code, err = run(runtime.Session{Stdin: never}, "exit 4")
	require.NoError(t, err)
	assert.Equal(t, 4, code)

	t.Log("a slow reader gets all output, also after the end of the command")
	slow := &slowWriter{}
	code, err = run(runtime.Session{Stdout: slow}, "head -c 60000 /dev/zero")
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Equal(t, 60000, slow.n)

	t.Log("a process that is left behind and holds the output open does not hold the session up")
	out.Reset()
	_, err = run(runtime.Session{Stdout: &out}, "sleep 100 & echo done")
	require.NoError(t, err)
	assert.Equal(t, "done\n", out.String())

	t.Log("a command that cannot be found")
	_, err = e.rt.ExecSession(t.Context(), id, []string{"/no/such/command"}, runtime.Session{Stdout: &out})
	assert.ErrorContains(t, err, `/no/such/command`)
	_, err = e.rt.ExecSession(t.Context(), id, nil, runtime.Session{Stdout: &out})
	assert.ErrorContains(t, err, "command is empty")
}

// slowWriter needs longer for a write than pipeTime.
type slowWriter struct{ n int }

func (s *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(700 * time.Millisecond)
	s.n += len(p)
	return len(p), nil
}

func TestSessionsOnATerminal(t *testing.T) {
	e := newEnv(t)
	_, id := e.run(e.pod(sleeping))
	var out lockedBuffer
	sizes := make(chan runtime.TerminalSize, 1)
	defer close(sizes)
	in, w := io.Pipe()
	defer w.Close()
	ended := make(chan int, 1)
	go func() {
		code, err := e.rt.ExecSession(t.Context(), id, shell("test -t 0 && test -t 1 && tty >/dev/null && echo ready; read x; stty size; echo got $x; exit 5"),
			runtime.Session{Stdin: in, Stdout: &out, TTY: true, Resize: sizes})
		if assert.NoError(t, err) {
			ended <- code
		}
		close(ended)
	}()
	e.until("the command is ready", func() bool { return strings.Contains(out.String(), "ready\r\n") })
	sizes <- runtime.TerminalSize{Width: 80, Height: 24}
	_, err := w.Write([]byte("hello\n"))
	require.NoError(t, err)
	assert.Equal(t, 5, <-ended)
	assert.Contains(t, out.String(), "got hello\r\n")
}

// After the end of its context or of its container, a session leaves no process behind.
func TestSessionsThatEnd(t *testing.T) {
	e := newEnv(t)
	_, id := e.run(e.pod(sleeping))
	for _, tty := range []bool{false, true} {
		pids := filepath.Join(t.TempDir(), "pids")
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			script := "trap '' HUP TERM; sh -c 'echo $$ >> " + pids + "; exec sleep 1000' & echo $$ >> " + pids + "; sleep 1000"
			_, err := e.rt.ExecSession(ctx, id, shell(script), runtime.Session{Stdout: io.Discard, TTY: tty})
			ended <- err
		}()
		e.until("both run", func() bool { text, _ := os.ReadFile(pids); return strings.Count(string(text), "\n") == 2 })
		leave()
		require.ErrorIs(t, <-ended, context.Canceled)
		text, err := os.ReadFile(pids)
		require.NoError(t, err)
		for pid := range strings.FieldsSeq(string(text)) {
			e.until(pid+" is gone", func() bool { _, err := os.ReadFile("/proc/" + pid + "/cmdline"); return err != nil })
		}
	}
	ended := make(chan int, 1)
	started := make(chan struct{})
	go func() {
		code, err := e.rt.ExecSession(t.Context(), id, shell("echo; sleep 1000"), runtime.Session{Stdout: writerFunc(func() { close(started) })})
		assert.NoError(t, err)
		ended <- code
	}()
	<-started
	require.NoError(t, e.rt.StopContainer(t.Context(), id, time.Second))
	assert.Equal(t, 137, <-ended)
	_, err := e.rt.ExecSession(t.Context(), id, shell("true"), runtime.Session{})
	require.Error(t, err)
	assert.False(t, errors.Is(err, context.Canceled))
}

type writerFunc func()

func (w writerFunc) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

// lockedBuffer is a buffer that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
