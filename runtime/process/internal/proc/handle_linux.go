// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Handle holds on to one process, so that its PID cannot come to mean another:
// a pidfd. Waiting costs no thread.
type Handle struct{ f *os.File }

// Open returns a handle of the process: os.ErrProcessDone if it is gone.
func (r Ref) Open() (*Handle, error) {
	fd, err := r.pidfd()
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &Handle{os.NewFile(uintptr(fd), "pidfd")}, nil
}

// pidfd opens a pidfd of the process: os.ErrProcessDone if it is gone.
func (r Ref) pidfd() (int, error) {
	if r.PID <= 0 {
		return -1, os.ErrProcessDone
	}
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, os.ErrProcessDone
	}
	if err != nil {
		return -1, fmt.Errorf("pidfd_open: %w", err)
	}
	// The descriptor is for whoever has the PID now; is it still the same?
	if info, err := Lookup(r.PID); err != nil || info.Ref != r {
		_ = unix.Close(fd)
		return -1, os.ErrProcessDone
	}
	return fd, nil
}

// Close lets go of the process.
func (h *Handle) Close() { _ = h.f.Close() }

// Wait returns nil when the process has ended, or ctx's error.
func (h *Handle) Wait(ctx context.Context) error {
	return waitReadable(ctx, h.f, func(fd int) (bool, error) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0, err
	})
}

// Signal sends a signal: os.ErrProcessDone if the process is gone.
func (h *Handle) Signal(sig unix.Signal) error {
	conn, err := h.f.SyscallConn()
	if err != nil {
		return err
	}
	var sigErr error
	if err := conn.Control(func(fd uintptr) { sigErr = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(sigErr, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return sigErr
}

// Signal sends one signal to the process: os.ErrProcessDone if it is gone.
func (r Ref) Signal(sig unix.Signal) error {
	h, err := r.Open()
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Signal(sig)
}

// waitReadable asks ready whenever f, a non-blocking file, may have become
// readable, until it says yes or ctx ends.
func waitReadable(ctx context.Context, f *os.File, ready func(fd int) (bool, error)) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var readyErr error
	err = conn.Read(func(fd uintptr) bool {
		var ok bool
		for {
			if ok, readyErr = ready(int(fd)); !errors.Is(readyErr, unix.EINTR) {
				return ok || readyErr != nil
			}
		}
	})
	switch {
	case err == nil:
		return readyErr
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return err
	}
}
