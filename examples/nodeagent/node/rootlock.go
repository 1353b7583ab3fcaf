// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/retry"
)

// ErrRootInUse is wrapped by the error of LockRoot, and so of Run, if another agent holds the folder.
var ErrRootInUse = errors.New("the folder is in use by another agent")

// lockPatience is how long LockRoot waits for another agent to end, such as a killed agent whose
// process the kernel has not yet removed. lockPause is the time between two attempts. LockRoot
// polls because a blocking flock cannot obey a context.
const lockPatience, lockPause = 5 * time.Second, 50 * time.Millisecond

// RootLock is an flock on the file Root/lock. The kernel releases it when the process ends.
type RootLock struct {
	root string
	file *os.File
}

// LockRoot creates the folder root if necessary, and locks the folder. If another agent holds the
// lock, LockRoot logs a warning, waits up to five seconds, and then returns an error that wraps
// ErrRootInUse and names the folder and the process of the other agent. If ctx ends first, the
// error wraps the cause of ctx's end. A nil log is silent.
//
// Run takes the lock itself. LockRoot is for a program that uses the folder or opens a port before
// Run. Such a program passes the lock as Options.RootLock, and calls Unlock after Run.
func LockRoot(ctx context.Context, root string, log *zap.Logger) (*RootLock, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("lock Root: %w", err)
	}
	path := filepath.Join(root, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock Root: %w", err)
	}
	if err := acquire(ctx, file, log); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock Root %s: %w", root, err)
	}
	// The process ID is only for the error message of another agent. The lock itself is the
	// kernel's.
	if err := errors.Join(file.Truncate(0), writeHolder(file)); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock Root %s: %w", root, err)
	}
	return &RootLock{root: filepath.Clean(root), file: file}, nil
}

// covers reports whether root is the locked folder or below it.
func (l *RootLock) covers(root string) bool {
	rel, err := filepath.Rel(l.root, root)
	return err == nil && filepath.IsLocal(rel)
}

// Unlock releases the lock. A second call has no effect.
func (l *RootLock) Unlock() { l.file.Close() }

func acquire(ctx context.Context, file *os.File, log *zap.Logger) error {
	err := tryLock(file)
	if !errors.Is(err, ErrRootInUse) {
		return err
	}
	if log != nil {
		log.Warn("another agent uses the root folder; waiting for its end", zap.String("lock", file.Name()),
			zap.String("holder", holder(file)), zap.Duration("atMost", lockPatience))
	}
	within, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for errors.Is(err, ErrRootInUse) && retry.Sleep(within, lockPause) == nil {
		err = tryLock(file)
	}
	switch {
	case !errors.Is(err, ErrRootInUse):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w (%s): stop that agent, or choose another folder", ErrRootInUse, holder(file))
}

func tryLock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrRootInUse
	}
	return err
}

func writeHolder(file *os.File) error {
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder describes the process that holds the lock.
func holder(file *os.File) string {
	buf := make([]byte, 32)
	n, _ := file.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	switch {
	case err != nil || pid <= 0:
		return "process unknown"
	case pid == os.Getpid():
		return fmt.Sprintf("process %d, this one", pid)
	}
	return fmt.Sprintf("process %d", pid)
}
