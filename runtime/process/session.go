// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

// ExecSession runs a command as Exec does, with the streams of a session. Output of processes that
// the command leaves behind is waited for as long as it comes, and pipeTime longer.
func (r *Runtime) ExecSession(ctx context.Context, id runtime.ContainerID, cmd []string, s runtime.Session) (exitCode int, err error) {
	streams, err := newStreams(s)
	if err != nil {
		return 0, err
	}
	defer streams.close()
	exitCode, err = r.execBeside(ctx, id, cmd, streams.connect)
	streams.finish(ctx)
	return exitCode, err
}

// streams connects the files of a command with the streams of a session. The files are pipes, or a
// terminal.
type streams struct {
	connect func(*stage.Command)
	brief   bool       // output is read for pipeTime after the end of the command, and no longer
	theirs  []*os.File // of the command
	ours    []*os.File
	outputs []*os.File // those of ours with the output
	copies  sync.WaitGroup
}

// newStreams opens the files and starts to copy.
func newStreams(s runtime.Session) (*streams, error) {
	if s.TTY {
		return newTerminal(s)
	}
	t := &streams{}
	var stdin, stdout, stderr *os.File
	errs := []error{
		t.input(&stdin, s.Stdin),
		t.output(&stdout, s.Stdout),
		t.output(&stderr, s.Stderr),
	}
	t.connect = func(c *stage.Command) { c.Files = [3]*os.File{stdin, stdout, stderr} }
	if err := errors.Join(errs...); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// input makes the pipe of an input, unless from is nil.
func (t *streams) input(end **os.File, from io.Reader) error {
	if from == nil {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	*end = r
	t.theirs, t.ours = append(t.theirs, r), append(t.ours, w)
	go func() { // ends with from, or with the pipe
		copyInput(w, from)
		w.Close()
	}()
	return nil
}

// The buffer of a stream is small until a read fills it: most sessions are interactive.
const (
	smallStream = 1 << 10
	largeStream = 32 << 10
)

// copyInput copies until the end of the input, or until the command takes no more input.
func copyInput(to io.Writer, from io.Reader) {
	for buf := make([]byte, smallStream); ; {
		n, err := from.Read(buf)
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			return
		}
		if n == smallStream {
			buf = make([]byte, largeStream)
		}
	}
}

// output makes the pipe of an output, unless to is nil.
func (t *streams) output(end **os.File, to io.Writer) error {
	if to == nil {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	*end = w
	t.theirs = append(t.theirs, w)
	t.copyOutput(r, to)
	return nil
}

// copyOutput copies until the end of the output.
func (t *streams) copyOutput(from *os.File, to io.Writer) {
	t.ours, t.outputs = append(t.ours, from), append(t.outputs, from)
	t.copies.Go(func() {
		buf := make([]byte, smallStream)
		for ended := false; ; {
			n, err := from.Read(buf)
			if n > 0 {
				if _, err := to.Write(buf[:n]); err != nil {
					from.Close() // the command learns that its reader is gone
					return
				}
			}
			if n == smallStream {
				buf = make([]byte, largeStream)
			}
			switch late := errors.Is(err, os.ErrDeadlineExceeded); {
			case late && !ended && !t.brief:
				ended = true // by finish: the rest of the output is read
			case err != nil:
				return // the end, or pipeTime without output
			}
			if ended {
				_ = from.SetReadDeadline(time.Now().Add(pipeTime))
			}
		}
	})
}

// finish reads the rest of the output after the end of the command. If ctx has ended, the rest is
// dropped.
func (t *streams) finish(ctx context.Context) {
	closeAll(t.theirs)
	until := time.Now()
	if t.brief {
		until = until.Add(pipeTime)
	}
	for _, f := range t.outputs {
		_ = f.SetReadDeadline(until)
	}
	if ctx.Err() != nil {
		closeAll(t.ours)
	}
	t.copies.Wait()
}

// close closes all files. A file that is closed already is no error.
func (t *streams) close() {
	closeAll(t.theirs)
	closeAll(t.ours)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
