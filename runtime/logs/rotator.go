// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
)

// ErrRunning says that Run was called twice.
var ErrRunning = errors.New("already running or ended")

// LogReopener makes the runtime write a container's log to its path again, after
// the file was renamed: to a new file if there is none. It may be called for a
// container that is ending or gone (then runtime.ErrNotRunning and ErrNotFound
// are no failures; after the former the old file gets its name back), and again
// although nothing was renamed. It returns when the old file is not
// written to any more, or will not be after the container's next line.
type LogReopener interface {
	ReopenLog(ctx context.Context, id runtime.ContainerID) error
}

// Log is the log of a running container.
type Log struct {
	ID   runtime.ContainerID
	Path string // absolute, as runtime.ContainerStatus.LogPath
}

// RotatorOptions configure a Rotator.
type RotatorOptions struct {
	// Reopener is told that a log file was renamed. Required.
	Reopener LogReopener
	// Logs lists the logs of the containers that run. With an error it may list
	// some of them. Required.
	Logs func(context.Context) ([]Log, error)

	// MaxSize is how many bytes a log file may have; it is looked at every
	// Interval, so it may have more meanwhile. Negative: nothing is rotated.
	// Defaults to 10 MiB.
	MaxSize int64
	// MaxFiles is how many files of one container instance there may be, the log
	// file included. At least 2. Defaults to 5.
	MaxFiles int
	// Interval is how long after one look Run takes the next. Defaults to 10 s.
	Interval time.Duration
	// Workers is how many logs are rotated at once. Defaults to 2.
	Workers int
	// ReopenTimeout bounds one call of Reopener. Defaults to 30 s.
	ReopenTimeout time.Duration
	// Logger tells which logs cannot be rotated. Defaults to none.
	Logger *zap.Logger
}

// Rotator keeps log files from growing for ever: it renames those that are too
// big, has the runtime begin new ones, compresses older ones and removes the
// oldest. It does the job of the 1.36 kubelet's ContainerLogManager, with the
// same names of files. It is safe for concurrent use.
type Rotator struct {
	opts       RotatorOptions
	openFolder func(dir string) (folder, error)

	mu struct {
		sync.Mutex
		busy map[string]chan struct{} // by path; closed when its step has ended
		ran  bool
	}
}

// NewRotator validates opts. It touches nothing.
func NewRotator(opts RotatorOptions) (*Rotator, error) {
	for _, d := range []struct {
		value    *int64
		standard int64
	}{
		{(*int64)(&opts.Interval), int64(10 * time.Second)},
		{(*int64)(&opts.ReopenTimeout), int64(30 * time.Second)},
		{&opts.MaxSize, 10 << 20},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if opts.MaxFiles == 0 {
		opts.MaxFiles = 5
	}
	if opts.Workers == 0 {
		opts.Workers = 2
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	switch {
	case opts.Reopener == nil:
		return nil, errors.New("logs: RotatorOptions.Reopener is required")
	case opts.Logs == nil:
		return nil, errors.New("logs: RotatorOptions.Logs is required")
	case opts.MaxFiles < 2:
		return nil, fmt.Errorf("logs: RotatorOptions.MaxFiles is %d: want 2 or more", opts.MaxFiles)
	case opts.Interval < 0:
		return nil, fmt.Errorf("logs: RotatorOptions.Interval is %s: want 0 or more", opts.Interval)
	case opts.Workers < 0:
		return nil, fmt.Errorf("logs: RotatorOptions.Workers is %d: want 0 or more", opts.Workers)
	case opts.ReopenTimeout < 0:
		return nil, fmt.Errorf("logs: RotatorOptions.ReopenTimeout is %s: want 0 or more", opts.ReopenTimeout)
	}
	r := &Rotator{opts: opts, openFolder: openFolder}
	r.mu.busy = make(map[string]chan struct{})
	return r, nil
}

// Run rotates every interval what needs it. It blocks until ctx ends and
// everything it started has ended, and returns nil then.
func (r *Rotator) Run(ctx context.Context) error {
	r.mu.Lock()
	ran := r.mu.ran
	r.mu.ran = true
	r.mu.Unlock()
	if ran {
		return fmt.Errorf("logs: Rotator.Run: %w", ErrRunning)
	}
	timer := time.NewTimer(r.opts.Interval)
	defer timer.Stop()
	var last string
	for ; ; timer.Reset(r.opts.Interval) {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := r.RotateAll(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			last = ""
		case err.Error() != last: // the same again is not news
			last = err.Error()
			r.opts.Logger.Warn("cannot rotate logs", zap.Error(err))
		}
	}
}

// RotateAll lists the logs once and rotates those that are too big. A log that
// cannot be rotated is part of the error and holds up none of the others.
func (r *Rotator) RotateAll(ctx context.Context) error {
	if r.opts.MaxSize < 0 {
		return nil
	}
	list, listErr := r.opts.Logs(ctx)
	if listErr != nil {
		listErr = fmt.Errorf("list logs: %w", listErr)
	}
	errs := make([]error, len(list))
	slots := make(chan struct{}, r.opts.Workers)
	var wg sync.WaitGroup
	for i := range list {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			wg.Wait()
			return context.Cause(ctx)
		}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = r.Rotate(ctx, list[i])
		})
	}
	wg.Wait()
	return errors.Join(append(errs, listErr)...)
}

// enter waits for its turn with the files of a log.
func (r *Rotator) enter(ctx context.Context, path string) (leave func(), err error) {
	for {
		r.mu.Lock()
		before := r.mu.busy[path]
		if before == nil {
			done := make(chan struct{})
			r.mu.busy[path] = done
			r.mu.Unlock()
			return func() {
				r.mu.Lock()
				delete(r.mu.busy, path)
				r.mu.Unlock()
				close(done)
			}, nil
		}
		r.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// at opens the folder of a log and waits for its turn there.
func (r *Rotator) at(ctx context.Context, path string) (dir folder, base string, leave func(), err error) {
	if !filepath.IsAbs(path) {
		return nil, "", nil, fmt.Errorf("log %q: its path is not absolute", path)
	}
	path = filepath.Clean(path)
	unlock, err := r.enter(ctx, path)
	if err != nil {
		return nil, "", nil, err
	}
	dir, err = r.openFolder(filepath.Dir(path))
	if err != nil {
		unlock()
		return nil, "", nil, err
	}
	return dir, filepath.Base(path), func() {
		_ = dir.Close() // nothing was written through it
		unlock()
	}, nil
}
