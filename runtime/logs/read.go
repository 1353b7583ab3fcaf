// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Request is the input of Read.
type Request struct {
	// Path of the log file, as runtime.ContainerStatus.LogPath. Required.
	Path string
	Options
	// Stdout and Stderr receive the text of the lines. nil: the stream is unwanted. Both may be the
	// same writer. The writers are never called concurrently.
	Stdout, Stderr io.Writer

	// Running reports, for Follow, whether the container may still write. Running is called at the
	// end of the log, at most once a second. An error counts as true. Defaults to false: Follow
	// then ends at the end of the log.
	Running func(context.Context) (bool, error)
	// Changed receives a hint, for Follow, that the log may have grown or the container terminated.
	// Defaults to none: hints only reduce the delay.
	Changed <-chan struct{}
	// Poll is the time between two checks of Follow at the end of the log. Defaults to 200 ms. A
	// check is two system calls. A file watch would not be cheaper, has limits of its own, and is
	// not available everywhere.
	Poll time.Duration
}

// Result has the counts of a Read.
type Result struct {
	Lines, Bytes int64
	// Malformed is the number of skipped lines that are no log entries.
	Malformed int64
}

// defaultPoll is too short a delay for people to notice. See Request.Poll.
const defaultPoll = 200 * time.Millisecond

// Read writes a container's log to the writers: first the rotated files, oldest first, then the log
// file up to its current end. With Follow, Read continues until the container has terminated. The
// kubelet 1.36 omits rotated files (kubernetes#59902). The other rules are the kubelet's.
//
// A line whose pieces are in two files may lose its beginning to Tail, and so may a line with more
// than 256 KiB of the other stream between two of its pieces.
//
// Memory is bounded for any input: at most 1.5 MiB. An unreadable rotated file is skipped and is
// part of the error. A writer's error ends the reading and is returned. When ctx ends, Read returns
// the cause of ctx. If the log has no file at all, the error wraps fs.ErrNotExist.
func Read(ctx context.Context, req Request) (Result, error) {
	switch err := req.validate(); {
	case req.Path == "":
		return Result{}, errors.New("logs: Request.Path is required")
	case req.Poll < 0:
		return Result{}, fmt.Errorf("logs: Request.Poll is %s: want 0 or more", req.Poll)
	case err != nil:
		return Result{}, err
	}
	req.Path = linked(req.Path)
	r := &reading{Request: req, decoder: newDecoder()}
	r.out = output{writers: [2]io.Writer{req.Stdout, req.Stderr}, since: req.Since, timestamps: req.Timestamps, limit: -1}
	if req.LimitBytes != nil {
		r.out.limit = *req.LimitBytes
	}
	r.Poll = cmp.Or(r.Poll, defaultPoll)
	err := r.run(ctx)
	if errors.Is(err, errLimit) {
		err = nil
	}
	return Result{Lines: r.out.written, Bytes: r.out.bytes, Malformed: r.decoder.malformed}, errors.Join(append(r.errs, err)...)
}

// linked returns the target if path is a symbolic link, because rotated files lie beside the log
// itself. The log may be missing for a moment during a rotation.
func linked(path string) string {
	for range maxLinks {
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

// maxLinks is the number of links to follow, as in Linux. The open call fails on a cycle.
const maxLinks = 40

// reading is a Read under way.
type reading struct {
	Request
	out     output
	decoder *decoder
	errs    []error // rotated files that could not be read

	current *os.File // nil: the log file is missing
	after   string   // the stamp of the newest file that was rotated before current
	stateAt time.Time
	stopped bool // the container does not run

	quiet      int   // waits since the log has grown
	usedBefore int64 // decoder.used at the last wait
}

func (r *reading) wants(s Stream) bool { return r.out.wants(s) }

func (r *reading) run(ctx context.Context) error {
	defer func() { r.closeCurrent() }()
	older, err := r.openCurrent()
	if err != nil {
		return err
	}
	if r.current == nil && len(older) == 0 && !r.mayCome(ctx) {
		return &fs.PathError{Op: "open", Path: r.Path, Err: fs.ErrNotExist}
	}
	if err := r.begin(); err != nil {
		return err
	}
	end, err := r.startOf(older)
	if err != nil {
		return err
	}
	if err := r.history(ctx, older[end.file:], end.first); err != nil {
		return err
	}
	if r.current != nil {
		if err := r.turnTo(end.current); err != nil {
			return err
		}
	}
	if r.Follow {
		return r.follow(ctx)
	}
	if r.current != nil {
		if err := r.copy(ctx); err != nil {
			return err
		}
		if err := r.leave(); err != nil {
			return err
		}
	}
	return r.out.finish()
}

// begin tells the writers of a Follow that reading has begun, before the first line.
func (r *reading) begin() error {
	for _, w := range r.out.writers {
		if w != nil && r.Follow {
			if _, err := w.Write(nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// openCurrent opens the log file and lists the files rotated since r.after and before the opened
// file. Between a rename and the reopening the log file is missing; the runtime then writes to the
// file renamed last.
func (r *reading) openCurrent() ([]rotated, error) {
	f, err := openLog(r.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("logs: %w", err)
	}
	r.closeCurrent()
	r.current = f
	list, err := r.rotatedAfter(r.after)
	if err != nil {
		return nil, err
	}
	if newest := len(list) - 1; f == nil && newest >= 0 && !list[newest].gz {
		f, err = openLog(r.Path + list[newest].suffix())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("logs: %w", err)
		}
		r.current = f
	}
	if i := r.indexOfCurrent(list); i >= 0 {
		list = list[:i] // rotated just now
	}
	if len(list) > 0 {
		r.after = list[len(list)-1].stamp
	}
	return list, nil
}

func (r *reading) closeCurrent() {
	if r.current != nil {
		_ = r.current.Close() // the file was only read
		r.current = nil
	}
}

func (r *reading) rotatedAfter(stamp string) ([]rotated, error) {
	names, err := namesIn(filepath.Dir(r.Path))
	if err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	list := history(names, filepath.Base(r.Path))
	for i, f := range list {
		if f.stamp > stamp {
			return list[i:], nil
		}
	}
	return nil, nil
}

// indexOfCurrent returns the index of the open file among the rotated files, or -1.
func (r *reading) indexOfCurrent(list []rotated) int {
	if r.current == nil {
		return -1
	}
	info, err := r.current.Stat()
	if err != nil {
		return -1
	}
	for i, f := range list {
		if other, err := os.Stat(r.Path + f.suffix()); err == nil && os.SameFile(info, other) {
			return i
		}
	}
	return -1
}

// start is the position where reading starts.
type start struct {
	file    int   // index of the first rotated file
	first   place // in the first rotated file
	current place // in the log file
}

// startOf returns the start position for Options.Tail.
func (r *reading) startOf(older []rotated) (start, error) {
	if r.Tail == nil {
		return start{}, nil
	}
	s := start{file: len(older)}
	left := *r.Tail
	if r.current != nil {
		info, err := r.current.Stat()
		if err != nil {
			return s, err
		}
		b := &backward{file: r.current, size: info.Size(), want: left, wants: r.wants}
		if s.current, err = b.run(); err != nil {
			return s, err
		}
		left -= s.current.lines
	}
	for left > 0 && s.file > 0 {
		s.file--
		o, err := openRotated(r.Path, older[s.file])
		if err != nil {
			continue // readRotated will fail with the same error
		}
		first, err := o.tail(left, r.wants)
		o.close()
		if err == nil {
			s.first = first
			left -= first.lines
		}
	}
	return s, nil
}
