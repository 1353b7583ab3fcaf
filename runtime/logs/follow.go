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

// stateInterval is how often a container's state is asked for at the end of its
// log.
const stateInterval = time.Second

// history reads rotated files, of the first one what begin says.
func (r *reading) history(ctx context.Context, list []rotated, begin place) error {
	for _, f := range list {
		if err := r.readRotated(ctx, f, begin); err != nil {
			return err
		}
		begin = place{}
	}
	return nil
}

// readRotated reads one rotated file. One that is gone by now was too old.
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
	r.out.emit = begin.emit
}

// turnTo goes on with the log file. Without Follow its end is where it ends now:
// who writes quickly must not keep us for ever.
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

// sourceError is a failure to read, as opposed to one to write.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func (e *sourceError) Unwrap() error { return e.err }

// copy writes every complete entry that is there.
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

// leave ends a file to which nothing will be added.
func (r *reading) leave() error {
	if e, ok := r.decoder.last(); ok {
		return r.out.add(e)
	}
	return nil
}

// follow reads on, from file to file, until the container has ended.
func (r *reading) follow(ctx context.Context) error {
	leaving := false // the file was replaced, and read to its end after that
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
		// The state is asked before the last look for a newer file.
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
			r.stopped = true // what it wrote until then is still to be read
			continue
		}
		leaving = replaced // whoever writes may not have opened the new file yet
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
}

// rewind starts over in a file that became shorter: somebody empties it instead
// of renaming it.
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

// replaced reports whether the log's path leads to another file by now.
func (r *reading) replaced() bool {
	info, err := os.Stat(r.Path)
	if err != nil {
		return false // it was renamed, and the new one is not there yet
	}
	if r.current == nil {
		return true
	}
	old, err := r.current.Stat()
	return err == nil && !os.SameFile(old, info)
}

// next leaves the file that was replaced, reads those that came and went since,
// and opens the one that there is now.
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
		// The oldest of them is the one just read, if it is not compressed yet or
		// was removed.
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

// hasStopped asks for the container's state, if that was not done lately.
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

// mayCome reports whether a log that is not there may still be made.
func (r *reading) mayCome(ctx context.Context) bool { return r.Follow && !r.hasStopped(ctx) }

// wait waits for a change, or some time.
func (r *reading) wait(ctx context.Context) error {
	timer := time.NewTimer(r.Poll)
	defer timer.Stop()
	select {
	case <-timer.C:
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
