// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// NodeLogs serves the files of a folder under /logs/, usually /var/log. Use os.Root.FS, which does
// not follow links out of the folder.
func NodeLogs(folder fs.FS) Group {
	return get("/logs/", http.StripPrefix("/logs/", http.FileServerFS(folder)).ServeHTTP)
}

// Journal writes the entries of the system's journal that the arguments of journalctl select. The
// error contains the reason in the words of journalctl. Journal returns when ctx has ended.
type Journal func(ctx context.Context, args []string, w io.Writer) error

// Journalctl runs a program, usually journalctl, without a shell.
func Journalctl(program string) Journal {
	return func(ctx context.Context, args []string, w io.Writer) error {
		cmd := exec.CommandContext(ctx, program, args...)
		errs := &tail{max: 1 << 10}
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = w, errs, time.Second
		cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0")
		err := cmd.Run()
		if text := strings.TrimSpace(string(errs.last)); err != nil && text != "" {
			return fmt.Errorf("%w: %s", err, text)
		}
		return err
	}
}

// Limits of the answers to queries.
const (
	queryTime  = 30 * time.Second
	maxQueries = 4         // at the same time
	maxAnswer  = 256 << 20 // bytes
	maxTail    = 16 << 20  // bytes of the last lines of a file
)

// NodeLogsWithQueries serves NodeLogs and queries of logs (KEP-2258), /logs/?query=SERVICE. The entries
// of a service are those of its unit in the journal. Without a journal, or without entries of the unit,
// they are the lines of the file SERVICE, SERVICE.log or SERVICE/SERVICE.log of the folder. A nil journal
// means files alone. Parameters and answers are those of the kubelet 1.36, with these differences:
// pattern and tailLines hold for files, too. untilTime is honoured. The journal is not read on after the
// client has left. An answer is at most 256 MiB, takes 30 s at most, and is not compressed. Four
// queries are answered at the same time.
func NodeLogsWithQueries(folder fs.FS, journal Journal) Group {
	q := &nodeLogs{files: http.StripPrefix("/logs/", http.FileServerFS(folder)), folder: folder, journal: journal, slots: make(chan struct{}, maxQueries)}
	return get("/logs/", q.serve)
}

type nodeLogs struct {
	files   http.Handler
	folder  fs.FS
	journal Journal
	slots   chan struct{}
}

func (l *nodeLogs) serve(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	if !values.Has("query") {
		l.files.ServeHTTP(w, r)
		return
	}
	query, err := parseNodeLogQuery(values)
	if err != nil {
		reply(w, http.StatusBadRequest, err.Error())
		return
	}
	if r.URL.Path != "/logs/" {
		err = errors.New("a query has no path: want /logs/?query=…")
	} else {
		err = query.check()
	}
	if err != nil {
		reply(w, http.StatusNotAcceptable, err.Error())
		return
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		reply(w, http.StatusTooManyRequests, fmt.Sprintf("%d queries are being answered: try again later", maxQueries))
		return
	}
	l.answer(w, r, &query)
}

// answer writes the logs that the query selects. An error after the first byte is part of the
// answer.
func (l *nodeLogs) answer(w http.ResponseWriter, r *http.Request, q *nodeLogQuery) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), queryTime, fmt.Errorf("the answer takes more than %v", queryTime))
	defer cancel()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	controller := http.NewResponseController(w)
	_ = controller.SetWriteDeadline(time.Now().Add(queryTime + time.Second)) // for a client that does not read
	out := &bounded{w: w, left: maxAnswer}
	err := l.write(ctx, out, q)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err == nil:
	case out.left == maxAnswer && errors.Is(err, fs.ErrNotExist):
		reply(w, http.StatusNotFound, err.Error())
	case out.left == maxAnswer:
		reply(w, http.StatusInternalServerError, err.Error())
	default:
		fmt.Fprintf(w, "\nthe answer ends here: %v\n", err)
	}
	_ = controller.SetWriteDeadline(time.Time{}) // for later answers on this connection
}

func (l *nodeLogs) write(ctx context.Context, out io.Writer, q *nodeLogQuery) error {
	if q.file != "" {
		return l.copyFile(ctx, out, q, q.file)
	}
	var units, files []string
	for _, service := range q.services {
		inJournal, err := l.hasEntries(ctx, service)
		switch {
		case err != nil:
			return err
		case inJournal:
			units = append(units, service)
		default:
			files = append(files, service)
		}
	}
	if len(units) > 0 {
		if err := l.journal(ctx, q.arguments(units), out); err != nil && !nothingFound(err, q) {
			return fmt.Errorf("journalctl: %w", err)
		}
	}
	for _, service := range files {
		if !q.since.IsZero() || !q.until.IsZero() || q.boot != nil {
			return fmt.Errorf("the journal has no entries of %s: sinceTime, untilTime and boot are for the journal: %w", service, fs.ErrNotExist)
		}
		if err := l.copyService(ctx, out, q, service); err != nil {
			return err
		}
	}
	return nil
}

// nothingFound reports whether journalctl failed because no entry fits the pattern: its exit code is 1.
func nothingFound(err error, q *nodeLogQuery) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == 1 && q.pattern != nil
}

// hasEntries reports whether the journal has an entry of the unit.
func (l *nodeLogs) hasEntries(ctx context.Context, unit string) (bool, error) {
	if l.journal == nil {
		return false, nil
	}
	var first bytes.Buffer
	err := l.journal(ctx, []string{"--quiet", "--no-pager", "--lines=1", "--unit=" + unit}, &first)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("journalctl: %w", err)
	}
	return first.Len() > 0, nil
}

// copyService writes the log file of a service.
func (l *nodeLogs) copyService(ctx context.Context, out io.Writer, q *nodeLogQuery, service string) error {
	for _, name := range []string{service, service + ".log", service + "/" + service + ".log"} {
		if info, err := fs.Stat(l.folder, name); err == nil && info.Mode().IsRegular() {
			return l.copyFile(ctx, out, q, name)
		}
	}
	return fmt.Errorf("neither the journal nor the folder of logs has a log of %s: %w", service, fs.ErrNotExist)
}

// copyFile writes the lines of a file that fit the query.
func (l *nodeLogs) copyFile(ctx context.Context, out io.Writer, q *nodeLogQuery, name string) error {
	f, err := l.folder.Open(strings.TrimSuffix(name, "/"))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", name)
	}
	last := &lastLines{}
	if q.tail != nil {
		last.max = *q.tail
	}
	in := bufio.NewReaderSize(io.LimitReader(f, info.Size()), 64<<10) // the file may grow meanwhile
	for {
		line, err := in.ReadSlice('\n') // a longer line is treated as several
		if len(line) > 0 && (q.pattern == nil || q.pattern.Match(bytes.TrimSuffix(line, []byte("\n")))) {
			if q.tail != nil {
				last.add(line)
			} else if _, err := out.Write(line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return last.writeTo(out)
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// lastLines keeps the last lines, of at most maxTail bytes.
type lastLines struct {
	max, size int
	lines     [][]byte
}

func (l *lastLines) add(line []byte) {
	if l.max == 0 {
		return
	}
	l.lines = append(l.lines, bytes.Clone(line))
	for l.size += len(line); len(l.lines) > l.max || l.size > maxTail; l.lines = l.lines[1:] {
		l.size -= len(l.lines[0])
	}
}

func (l *lastLines) writeTo(out io.Writer) error {
	for _, line := range l.lines {
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// bounded writes a number of bytes at most.
type bounded struct {
	w    io.Writer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		return 0, fmt.Errorf("it has more than %d bytes", maxAnswer)
	}
	n, err := b.w.Write(p)
	b.left -= n
	return n, err
}

// tail keeps the last bytes that were written.
type tail struct {
	max  int
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	t.last = t.last[max(0, len(t.last)-t.max):]
	return len(p), nil
}
