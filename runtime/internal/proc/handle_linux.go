// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Handle holds on to one process, so that its PID cannot come to mean another:
// a pidfd. Waiting costs no thread.
type Handle struct {
	f   *os.File
	pid int
}

// Match recognizes a process by the arguments that it was started with.
type Match func(args []string) bool

// open returns a handle of whatever process has the PID now: os.ErrProcessDone if
// none has.
func open(pid int) (*Handle, error) {
	if pid <= 0 {
		return nil, os.ErrProcessDone
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: a thread
		return nil, os.ErrProcessDone
	}
	if err == nil {
		if err = unix.SetNonblock(fd, true); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	return &Handle{os.NewFile(uintptr(fd), "pidfd"), pid}, nil
}

// prove keeps the handle if the process is ours, as far as check sees by its PID, and
// still ran after that: then it was this process that check saw. It closes the handle
// and returns os.ErrProcessDone otherwise.
func (h *Handle) prove(check func(pid int) bool) (*Handle, error) {
	if check(h.pid) && h.Signal(0) == nil {
		return h, nil
	}
	h.Close()
	return nil, os.ErrProcessDone
}

// Open returns a handle of the process: os.ErrProcessDone if it is gone.
func (r Ref) Open() (*Handle, error) {
	h, err := open(r.PID)
	if err != nil {
		return nil, err
	}
	return h.prove(func(pid int) bool {
		info, err := Lookup(pid)
		return err == nil && info.Ref == r
	})
}

// Is reports whether the PID of r belongs to a process of this user, or of root, with
// matching arguments. What r says beside the PID does not count.
func Is(r Ref, match Match) bool { return r.PID > 0 && matches(r.PID, match) }

func matches(pid int, match Match) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	raw, err := os.ReadFile(dir + "/cmdline") // empty for zombies
	if err != nil || !match(strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")) {
		return false
	}
	var st unix.Stat_t
	err = unix.Stat(dir, &st)
	return err == nil && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// HoldAt returns a handle of the process with the PID of hint, if that is one with
// matching arguments: os.ErrProcessDone otherwise. The hint may come from anywhere.
func HoldAt(hint Ref, match Match) (*Handle, error) {
	if !Is(hint, match) {
		return nil, os.ErrProcessDone
	}
	h, err := open(hint.PID)
	if err != nil {
		return nil, err
	}
	return h.prove(func(pid int) bool { return matches(pid, match) })
}

// Hold is HoldAt that looks at all processes if the hint is wrong.
func Hold(hint Ref, match Match) (*Handle, error) {
	h, err := HoldAt(hint, match)
	if !errors.Is(err, os.ErrProcessDone) {
		return h, err
	}
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		h, err := HoldAt(Ref{PID: pid}, match)
		if !errors.Is(err, os.ErrProcessDone) {
			return h, err
		}
	}
	return nil, os.ErrProcessDone
}

// PID returns the number of the process. It stays that process's until it is reaped.
func (h *Handle) PID() int { return h.pid }

// Memory returns what the process keeps in memory of the kernel under this name, if
// nobody can change it any more: fs.ErrNotExist if there is no such memory.
func (h *Handle) Memory(name string) ([]byte, error) {
	dir := "/proc/" + strconv.Itoa(h.pid) + "/fd"
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		path := dir + "/" + fd.Name()
		if to, err := os.Readlink(path); err != nil || to != "/memfd:"+name+" (deleted)" {
			continue
		}
		raw, err := sealedMemory(path)
		if err == nil {
			err = h.Signal(0) // else the PID may have been another's
		}
		return raw, err
	}
	return nil, fs.ErrNotExist
}

// sealedMemory reads a memory file that is sealed against writing.
func sealedMemory(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_WRITE == 0 {
		return nil, fs.ErrNotExist
	}
	return io.ReadAll(f)
}

// Reap collects the process if it has ended and is a child of this one.
func (h *Handle) Reap() {
	const byPidfd = 3 // P_PIDFD
	conn, err := h.f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _ = unix.Waitid(byPidfd, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil) })
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
