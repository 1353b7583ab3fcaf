// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/keylock"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime"
)

// ErrRunning is the error of a second call of Run.
var ErrRunning = errors.New("already running or ended")

// LogReopener makes the runtime reopen a container's log path after the log file was renamed. The
// runtime creates a missing file. ReopenLog may be called for a container that is terminating or
// gone: runtime.ErrNotRunning and ErrNotFound are no failures. After ErrNotRunning the old file
// gets its name back. ReopenLog may also be called without a rename. ReopenLog returns when the old
// file receives no more output, or at most the container's next line.
type LogReopener interface {
	ReopenLog(ctx context.Context, id runtime.ContainerID) error
}

// Log is the log of a running container.
type Log struct {
	ID   runtime.ContainerID
	Path string // absolute, as runtime.ContainerStatus.LogPath
}

const (
	// lookInterval is the time between two size checks of Run.
	lookInterval = 10 * time.Second
	// parallelRotations is the number of logs rotated at the same time.
	parallelRotations = 2
	// reopenTimeout bounds a call of ReopenLog.
	reopenTimeout = 30 * time.Second
)

// RotatorOptions configure a Rotator.
type RotatorOptions struct {
	// Reopener reopens a renamed log file. Required.
	Reopener LogReopener
	// Logs lists the logs of the running containers. A partial list may come with an error.
	// Required.
	Logs func(context.Context) ([]Log, error)

	// MaxSize is the size in bytes above which a log file is rotated. Sizes are checked every 10 s,
	// so that a file may exceed MaxSize meanwhile. Negative: no rotation. Defaults to 10 MiB.
	MaxSize int64
	// MaxFiles is the maximum number of files of a container instance, including the log file. At
	// least 2. Defaults to 5.
	MaxFiles int
	// Logger receives rotation failures. Defaults to a silent logger.
	Logger *zap.Logger
}

// Rotator bounds the size of log files: it renames big files, makes the runtime open new files,
// compresses older files and removes the oldest. File names and duties are those of the 1.36
// kubelet's ContainerLogManager. A Rotator is safe for concurrent use.
type Rotator struct {
	opts       RotatorOptions
	openFolder func(dir string) (folder, error)
	turns      keylock.Locks[string] // by path
	ran        atomic.Bool

	mu struct {
		sync.Mutex
		tidy map[string]bool // paths of the last RotateAll whose files are in order; never written, only replaced
	}
}

// NewRotator validates opts and touches no file.
func NewRotator(opts RotatorOptions) (*Rotator, error) {
	opts.MaxSize = cmp.Or(opts.MaxSize, 10<<20)
	opts.MaxFiles = cmp.Or(opts.MaxFiles, 5)
	opts.Logger = cmp.Or(opts.Logger, zap.NewNop())
	switch {
	case opts.Reopener == nil:
		return nil, errors.New("logs: RotatorOptions.Reopener is required")
	case opts.Logs == nil:
		return nil, errors.New("logs: RotatorOptions.Logs is required")
	case opts.MaxFiles < 2:
		return nil, fmt.Errorf("logs: RotatorOptions.MaxFiles is %d: want 2 or more", opts.MaxFiles)
	}
	return &Rotator{opts: opts, openFolder: openFolder}, nil
}

// Run calls RotateAll every 10 s. Run blocks until ctx ends and all its goroutines have ended, and
// returns nil then.
func (r *Rotator) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return fmt.Errorf("logs: Rotator.Run: %w", ErrRunning)
	}
	failed := failurelog.Log{Logger: r.opts.Logger, Failed: "cannot rotate logs"}
	for retry.Sleep(ctx, lookInterval) == nil {
		err := r.RotateAll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		failed.Report(err)
	}
	return nil
}

// RotateAll lists the logs once and rotates big logs. The error includes every log that cannot be
// rotated. A failed log does not delay other logs. Of a small log whose files were in order at the
// last call, only the size is read.
func (r *Rotator) RotateAll(ctx context.Context) error {
	if r.opts.MaxSize < 0 {
		return nil
	}
	list, listErr := r.opts.Logs(ctx)
	if listErr != nil {
		listErr = fmt.Errorf("list logs: %w", listErr)
	}
	r.mu.Lock()
	tidy := r.mu.tidy
	r.mu.Unlock()
	errs := make([]error, len(list))
	slots := make(chan struct{}, parallelRotations)
	var wg sync.WaitGroup
	for i := range list {
		if tidy[list[i].Path] && r.isSmall(list[i].Path) {
			continue
		}
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
	r.setTidy(list, errs)
	return errors.Join(append(errs, listErr)...)
}

// isSmall reports whether the log at path is a file that needs no rotation.
func (r *Rotator) isSmall(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() < r.opts.MaxSize
}

// setTidy notes the logs without an error. An interrupted step has an error.
func (r *Rotator) setTidy(list []Log, errs []error) {
	tidy := make(map[string]bool, len(list))
	for i := range list {
		if errs[i] == nil {
			tidy[list[i].Path] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.tidy = tidy
}

// at opens the folder of a log and waits for exclusive use of the log's files.
func (r *Rotator) at(ctx context.Context, path string) (dir folder, base string, leave func(), err error) {
	if !filepath.IsAbs(path) {
		return nil, "", nil, fmt.Errorf("log %q: its path is not absolute", path)
	}
	path = filepath.Clean(path)
	unlock, err := r.turns.Lock(ctx, path)
	if err != nil {
		return nil, "", nil, err
	}
	dir, err = r.openFolder(filepath.Dir(path))
	if err != nil {
		unlock()
		return nil, "", nil, err
	}
	return dir, filepath.Base(path), func() {
		_ = dir.Close() // the folder handle was not written to
		unlock()
	}, nil
}
