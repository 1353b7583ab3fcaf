// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Request is one reading of a container's log.
type Request struct {
	// Path of the log file, as runtime.ContainerStatus.LogPath. Required.
	Path string
	Options
	// Stdout and Stderr receive the text of the lines. nil: that stream is not
	// wanted. They may be the same. They are never called concurrently.
	Stdout, Stderr io.Writer

	// Running says whether the container may still write, for Follow. It is asked
	// at the end of the log, at most once a second; an error counts as yes.
	// Defaults to no: Follow then ends at the end of the log.
	Running func(context.Context) (bool, error)
	// Changed receives a hint that the log may have grown or the container ended,
	// for Follow. Defaults to none: hints only make it quicker.
	Changed <-chan struct{}
	// Poll is how long Follow waits at the end of the log before it looks again.
	// Defaults to 200 ms. A look is two system calls; a watch for changes of files
	// would be no cheaper, has limits of its own, and does not work everywhere.
	Poll time.Duration
}

// Result is what came of a reading.
type Result struct {
	Lines, Bytes int64
	// Malformed is how many lines of the files were no log entries. They are left
	// out.
	Malformed int64
}

// defaultPoll is a delay that nobody notices. See Request.Poll.
const defaultPoll = 200 * time.Millisecond

// Read writes a container's log to the writers: first what was rotated out, the
// oldest first, then the log file, up to its end as it is now, or with Follow
// until the container has ended. The kubelet 1.36 leaves out what was rotated
// (kubernetes#59902); otherwise its rules hold.
//
// A line whose pieces are in two files may lose its beginning to Tail.
//
// Memory is bounded whatever the lines are like: at most 1.5 MiB. A rotated file
// that cannot be read is left out and is part of the error; the rest is read all
// the same. Writers' errors end the reading and are returned. When ctx ends its
// cause is returned. If there is no log at all the error wraps fs.ErrNotExist.
func Read(ctx context.Context, req Request) (Result, error) {
	switch err := req.validate(); {
	case req.Path == "":
		return Result{}, errors.New("logs: Request.Path is required")
	case req.Poll < 0:
		return Result{}, fmt.Errorf("logs: Request.Poll is %s: want 0 or more", req.Poll)
	case err != nil:
		return Result{}, err
	}
	r := &reading{Request: req, decoder: newDecoder()}
	r.out = output{writers: [2]io.Writer{req.Stdout, req.Stderr}, since: req.Since, timestamps: req.Timestamps, limit: -1}
	if req.LimitBytes != nil {
		r.out.limit = *req.LimitBytes
	}
	if r.Poll == 0 {
		r.Poll = defaultPoll
	}
	err := r.run(ctx)
	if errors.Is(err, errLimit) {
		err = nil
	}
	return Result{Lines: r.out.written, Bytes: r.out.bytes, Malformed: r.decoder.malformed}, errors.Join(append(r.errs, err)...)
}

// reading is a Read under way.
type reading struct {
	Request
	out     output
	decoder *decoder
	errs    []error // rotated files that could not be read

	current *os.File // nil: it is missing
	after   string   // the stamp of the newest file that was rotated before current
	stateAt time.Time
	stopped bool // the container does not run
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

// begin lets whoever follows see that reading has begun, before there is a line.
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

// openCurrent opens the log file and lists what was rotated since r.after and
// before the file it has opened. Between a rename and the reopening there is no
// log file; what was renamed last is the one that is written to.
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
		list = list[:i] // it was rotated just now
	}
	if len(list) > 0 {
		r.after = list[len(list)-1].stamp
	}
	return list, nil
}

func (r *reading) closeCurrent() {
	if r.current != nil {
		_ = r.current.Close() // it was only read
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

// indexOfCurrent finds the open file among rotated ones; -1: it is not.
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

// start is where reading starts.
type start struct {
	file    int   // index of the first rotated file
	first   place // in that one
	current place // in the log file
}

// startOf finds the start that Options.Tail asks for.
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
			continue // reading it will fail, too, and say why
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
