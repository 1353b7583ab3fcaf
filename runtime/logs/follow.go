// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// stateInterval is the time between two state checks of a container at the end of its log.
const stateInterval = time.Second

// history reads the rotated files, the first file from begin on.
func (r *reading) history(ctx context.Context, list []rotated, begin place) error {
	for _, f := range list {
		if err := r.readRotated(ctx, f, begin); err != nil {
			return err
		}
		begin = place{}
	}
	return nil
}

// readRotated reads a rotated file. A missing file was removed as too old.
func (r *reading) readRotated(ctx context.Context, f rotated, begin place) error {
	o, err := openRotated(r.Path, f)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("logs: %w", err))
		return nil
	}
	defer o.close()
	if o.mtime.Before(r.Since) {
		return nil // so is everything in it
	}
	src, err := o.from(begin.offset)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("logs: %s%s: %w", r.Path, f.suffix(), err))
		return nil
	}
	r.source(src, begin)
	err = r.copy(ctx)
	if bad := (*sourceError)(nil); errors.As(err, &bad) {
		r.errs = append(r.errs, fmt.Errorf("logs: %s%s: %w", r.Path, f.suffix(), bad.err))
		return nil
	}
	if err != nil {
		return err
	}
	return r.leave()
}

// source makes the decoder read src from begin on.
func (r *reading) source(src io.Reader, begin place) {
	r.decoder.reset(src, begin.offset)
	r.out.first = begin.first
}

// turnTo continues with the log file. Without Follow, reading ends at the current end of the file,
// so that a fast writer cannot prolong the reading.
func (r *reading) turnTo(begin place) error {
	if _, err := r.current.Seek(begin.offset, io.SeekStart); err != nil {
		return err
	}
	var src io.Reader = r.current
	if !r.Follow {
		info, err := r.current.Stat()
		if err != nil {
			return err
		}
		src = io.LimitReader(src, max(0, info.Size()-begin.offset))
	}
	r.source(src, begin)
	return nil
}

// sourceError is a read error, as opposed to a write error.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func (e *sourceError) Unwrap() error { return e.err }

// copy writes every complete entry of the file.
func (r *reading) copy(ctx context.Context) error {
	for n := 0; ; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, err := r.decoder.next()
		if err == io.EOF {
			return r.out.flush()
		}
		if err != nil {
			return &sourceError{err}
		}
		if err := r.out.add(e); err != nil {
			return err
		}
	}
}

// leave finishes a file that will not grow.
func (r *reading) leave() error {
	if e, ok := r.decoder.last(); ok {
		return r.out.add(e)
	}
	return nil
}

// follow reads from file to file until the container has terminated.
func (r *reading) follow(ctx context.Context) error {
	leaving := false // the file was replaced and then read to its end
	for {
		if r.current != nil {
			if err := r.copy(ctx); err != nil {
				return err
			}
			rewound, err := r.rewind()
			if err != nil {
				return err
			}
			if rewound {
				continue
			}
		}
		// Check the state before the last check for a newer file.
		stopped := r.hasStopped(ctx)
		replaced := r.replaced()
		switch {
		case replaced && (leaving || stopped || r.current == nil):
			leaving = false
			if err := r.next(ctx); err != nil {
				return err
			}
			continue
		case stopped && r.stopped:
			if r.current != nil {
				if err := r.leave(); err != nil {
					return err
				}
			}
			return r.out.finish()
		case stopped:
			r.stopped = true // output written before the exit is still to be read
			continue
		}
		leaving = replaced // the runtime may not have opened the new file yet
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
}

// rewind starts over in a file that became shorter, because a program truncated the file instead of
// renaming it.
func (r *reading) rewind() (rewound bool, err error) {
	at, err := r.current.Seek(0, io.SeekCurrent)
	if err != nil {
		return false, err
	}
	info, err := r.current.Stat()
	if err != nil || info.Size() >= at {
		return false, err
	}
	return true, r.turnTo(place{})
}

// replaced reports whether the log's path leads to another file.
func (r *reading) replaced() bool {
	info, err := os.Stat(r.Path)
	if err != nil {
		return false // renamed, and the new file is missing yet
	}
	if r.current == nil {
		return true
	}
	old, err := r.current.Stat()
	return err == nil && !os.SameFile(old, info)
}

// next leaves the replaced file, reads the files rotated since, and opens the current log file.
func (r *reading) next(ctx context.Context) error {
	if r.current != nil {
		if err := r.copy(ctx); err != nil {
			return err
		}
		if err := r.leave(); err != nil {
			return err
		}
		list, err := r.rotatedAfter(r.after)
		if err != nil {
			return err
		}
		// The oldest file is the file just read, unless that file was compressed or removed.
		if i := r.indexOfCurrent(list); i >= 0 {
			r.after = list[i].stamp
		} else if len(list) > 0 && list[0].gz {
			r.after = list[0].stamp
		}
	}
	between, err := r.openCurrent()
	if err != nil {
		return err
	}
	if err := r.history(ctx, between, place{}); err != nil {
		return err
	}
	if r.current == nil {
		return nil
	}
	return r.turnTo(place{})
}

// hasStopped checks the container's state, at most once per stateInterval.
func (r *reading) hasStopped(ctx context.Context) bool {
	if r.stopped || r.Running == nil {
		return true
	}
	if !r.stateAt.IsZero() && time.Since(r.stateAt) < stateInterval {
		return false
	}
	r.stateAt = time.Now()
	running, err := r.Running(ctx)
	return err == nil && !running
}

// mayCome reports whether a missing log may still be created.
func (r *reading) mayCome(ctx context.Context) bool { return r.Follow && !r.hasStopped(ctx) }

// quietWaits is the number of waits without new data after which the buffers are released.
const quietWaits = 5

// release releases the buffers if the log has not grown during the last quietWaits waits: most
// followed logs are quiet most of the time.
func (r *reading) release() {
	if r.decoder.used != r.usedBefore {
		r.usedBefore, r.quiet = r.decoder.used, 0
		return
	}
	r.quiet++
	if r.quiet == quietWaits {
		r.decoder.shrink()
		r.out.shrink()
	}
}

// wait waits for a hint, at most r.Poll.
func (r *reading) wait(ctx context.Context) error {
	r.release()
	select {
	case <-time.After(r.Poll):
	case _, open := <-r.Changed:
		if !open {
			r.Changed = nil
		}
		r.stateAt = time.Time{}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
