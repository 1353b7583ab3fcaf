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

	"github.com/keelson-dev/keelson/internal/kernelfile"
)

// Handle is a pidfd of a process. It refers to the same process even after its PID is reused.
// Waiting needs no thread.
type Handle struct {
	f   *os.File
	pid int
}

// Match recognizes a process by its arguments.
type Match func(args []string) bool

// open returns a handle of the process that has the PID now, or os.ErrProcessDone without a
// process.
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

// prove returns the handle if check accepts the PID and the process runs after the check. Then
// check has inspected the process of the handle. Otherwise prove closes the handle and returns
// os.ErrProcessDone.
func (h *Handle) prove(check func(pid int) bool) (*Handle, error) {
	if check(h.pid) && h.Signal(0) == nil {
		return h, nil
	}
	h.Close()
	return nil, os.ErrProcessDone
}

// Open returns a handle of the process, or os.ErrProcessDone if the process has ended.
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

// Is reports whether the PID of r belongs to a process of this user or of root with matching
// arguments. The start time in r is ignored.
func Is(r Ref, match Match) bool { return r.PID > 0 && matches(r.PID, match) }

func matches(pid int, match Match) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	raw, err := arguments(dir)
	if err != nil || !match(split(raw)) {
		return false
	}
	var st unix.Stat_t
	err = unix.Stat(dir, &st)
	return err == nil && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// split splits the result of arguments.
func split(raw []byte) []string {
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
}

// arguments returns the arguments of the process with the folder dir, each with a zero byte at its
// end. Zombies and threads of the kernel have none. A process has none for some microseconds while it
// executes a program, and arguments waits for the end of this time.
func arguments(dir string) (raw []byte, err error) {
	for range 50 {
		raw, err = kernelfile.Append(make([]byte, 0, 256), dir+"/cmdline")
		if err != nil || len(raw) > 0 {
			return raw, err
		}
		if _, err := os.Readlink(dir + "/exe"); err != nil {
			return nil, nil
		}
		<-time.After(100 * time.Microsecond)
	}
	return raw, err
}

// HoldAt returns a handle of the process with the PID of hint, if its arguments match, else
// os.ErrProcessDone. The hint need not be trustworthy.
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

// Hold is HoldAt, and searches all processes if the hint is wrong. The search leaves out children of
// a matching process that have not executed a program yet.
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
		var args []string
		h, err := HoldAt(Ref{PID: pid}, func(of []string) bool { args = of; return match(of) })
		if err == nil && isCopy(pid, args) {
			h.Close()
			continue
		}
		if !errors.Is(err, os.ErrProcessDone) {
			return h, err
		}
	}
	return nil, os.ErrProcessDone
}

// PID returns the PID. The PID is not reused before the process is reaped.
func (h *Handle) PID() int { return h.pid }

// Memory returns the content of the process's memory file with this name, if the file is sealed
// against changes. Without such a file the error is fs.ErrNotExist.
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
			err = h.Signal(0) // otherwise the PID may belong to another process
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

// Reap reaps the process if it has ended and is a child of this process.
func (h *Handle) Reap() {
	const byPidfd = 3 // P_PIDFD
	conn, err := h.f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _ = unix.Waitid(byPidfd, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil) })
}

// File returns the pidfd. Close closes it.
func (h *Handle) File() *os.File { return h.f }

// Close closes the handle.
func (h *Handle) Close() { _ = h.f.Close() }

// Wait returns nil after the end of the process, or the error of ctx.
func (h *Handle) Wait(ctx context.Context) error {
	return waitReadable(ctx, h.f, func(fd int) (bool, error) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0, err
	})
}

// Signal sends a signal. The error is os.ErrProcessDone if the process has ended.
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

// Signal sends a signal. The error is os.ErrProcessDone if the process has ended.
func (r Ref) Signal(sig unix.Signal) error {
	h, err := r.Open()
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Signal(sig)
}

// waitReadable calls ready whenever f, a non-blocking file, may have become readable, until ready
// returns true or ctx ends.
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
