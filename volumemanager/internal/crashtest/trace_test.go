// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errNoTrace reports that this system does not permit a process to trace its child.
var errNoTrace = errors.New("agents cannot be stopped at system calls here")

// verdict is the decision about a victim at a boundary.
type verdict int

const (
	goOn verdict = iota
	killBefore
	killAfter
)

// call is a system call that a thread of the victim is about to execute.
type call struct {
	thread int
	nr     uint64
	args   [6]uint64
}

// tracer runs a victim. Its funcs are called while the thread in question is stopped; the other
// threads run.
type tracer struct {
	// told is called for marks, judge decides at boundaries.
	told  func(m mark, a, b int)
	judge func(call) verdict

	pid     int
	known   map[int]bool // threads after their first stop
	last    int          // the victim is killed at the next stop of this thread; 0: none
	at      string
	killed  bool
	expired bool
}

// patience is the time limit of a victim; a victim that hangs is a failure.
const patience = 90 * time.Second

// run starts the program and returns when all of its threads have ended.
func (tr *tracer) run(program string, env []string, output *os.File) (unix.WaitStatus, error) {
	// Only the thread that started tracing may continue it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	process, err := os.StartProcess(program, []string{program}, &os.ProcAttr{
		Env: env, Files: []*os.File{nil, output, output}, Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: %w", errNoTrace, err)
	}
	if err != nil {
		return 0, err
	}
	tr.pid, tr.known = process.Pid, map[int]bool{process.Pid: true}
	defer process.Release()
	if _, err := tr.wait(tr.pid); err != nil {
		return 0, err
	}
	const options = unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACESYSGOOD
	if err := unix.PtraceSetOptions(tr.pid, options); err != nil {
		tr.kill()
		return 0, fmt.Errorf("%w: %w", errNoTrace, err)
	}
	hung := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		close(hung)
		_ = process.Kill() // through its pidfd: never another process
	})
	defer timer.Stop()
	_ = unix.PtraceCont(tr.pid, 0)
	status, err := tr.loop()
	select {
	case <-hung:
		tr.expired = true
	default:
	}
	return status, err
}

// event is a change of a thread.
type event struct {
	thread int
	status unix.WaitStatus
}

// wait returns the next event of a thread; -1 waits for any traced thread.
func (tr *tracer) wait(thread int) (event, error) {
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(thread, &status, unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return event{}, fmt.Errorf("wait for the victim: %w", err)
		}
		return event{tid, status}, nil
	}
}

func (tr *tracer) loop() (unix.WaitStatus, error) {
	for {
		e, err := tr.wait(-1)
		if err != nil {
			return 0, err
		}
		if e.status.Exited() || e.status.Signaled() {
			if e.thread == tr.pid { // the kernel reports the main thread after all others have ended
				return e.status, nil
			}
			continue
		}
		if err := tr.stopped(e); err != nil {
			tr.kill()
			return 0, err
		}
	}
}

// stopped handles a stop, and continues the thread.
func (tr *tracer) stopped(e event) error {
	first := !tr.known[e.thread]
	tr.known[e.thread] = true
	signal := e.status.StopSignal()
	switch {
	case signal == unix.SIGTRAP && e.status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		return tr.boundary(e.thread)
	case signal == unix.SIGTRAP|0x80:
		if e.thread == tr.last {
			tr.kill()
		}
		signal = 0
	case signal == unix.SIGTRAP && e.status.TrapCause() > 0, first && signal == unix.SIGSTOP:
		signal = 0
	}
	_ = unix.PtraceCont(e.thread, int(signal)) // a thread killed meanwhile cannot be continued
	return nil
}

func (tr *tracer) boundary(thread int) error {
	c, err := callOf(thread)
	if errors.Is(err, unix.ESRCH) {
		return nil // killed
	}
	if err != nil {
		return fmt.Errorf("%w: PTRACE_GET_SYSCALL_INFO (Linux 5.3): %w", errNoTrace, err)
	}
	if c.nr == markCall {
		if !tr.killed && c.args[0]&^0xff == markMagic {
			tr.told(mark(c.args[0]&0xff), int(c.args[1]), int(c.args[2]))
		}
		_ = unix.PtraceCont(thread, 0)
		return nil
	}
	if tr.killed || tr.last != 0 {
		_ = unix.PtraceCont(thread, 0)
		return nil
	}
	switch tr.judge(c) {
	case killBefore:
		tr.at = "before " + c.String()
		tr.kill()
	case killAfter:
		tr.at = "after " + c.String()
		tr.last = thread
		_ = unix.PtraceSyscall(thread, 0)
	default:
		_ = unix.PtraceCont(thread, 0)
	}
	return nil
}

// kill is kill -9. The stopped threads do not execute their pending calls.
func (tr *tracer) kill() {
	tr.killed = true
	_ = unix.Kill(tr.pid, unix.SIGKILL)
}

// callOf returns the call that a thread at an entry is about to execute.
func callOf(thread int) (call, error) {
	// struct ptrace_syscall_info: op, arch, two pointers, then the number and the arguments.
	var info struct {
		op, _   uint32
		_, _    uint64
		nr      uint64
		args    [6]uint64
		data, _ uint32
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return call{}, errno
	}
	return call{thread, info.nr, info.args}, nil
}

// paths are the indices of the arguments with paths, by system call.
var paths = map[uint64][]int{
	unix.SYS_OPENAT: {1}, unix.SYS_OPENAT2: {1}, unix.SYS_READLINKAT: {1}, unix.SYS_STATX: {1}, unix.SYS_MKDIRAT: {1}, unix.SYS_UNLINKAT: {1},
	unix.SYS_FCHMODAT: {1}, unix.SYS_FCHMODAT2: {1}, unix.SYS_FCHOWNAT: {1}, unix.SYS_SYMLINKAT: {0, 2}, unix.SYS_LINKAT: {1, 3},
	unix.SYS_RENAMEAT: {1, 3}, unix.SYS_RENAMEAT2: {1, 3}, unix.SYS_MOUNT: {0, 1}, unix.SYS_UMOUNT2: {0},
}

// folders are the indices of the arguments with open folders, by system call, if not the first
// argument.
var folders = map[uint64]int{unix.SYS_SYMLINKAT: 1, unix.SYS_MOUNT: -1, unix.SYS_UMOUNT2: -1, unix.SYS_STATFS: -1}

// String returns the name of the call with its paths, for people.
func (c call) String() string {
	words := []string{callName(c.nr)}
	fd, special := folders[c.nr]
	if !special {
		fd = 0
	}
	if fd >= 0 {
		words = append(words, c.file(fd))
	}
	for _, i := range paths[c.nr] {
		words = append(words, c.text(i))
	}
	return strings.Join(words, " ")
}

// file returns the path of the open file in an argument.
func (c call) file(i int) string {
	if int32(c.args[i]) == unix.AT_FDCWD {
		return ""
	}
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.thread, int32(c.args[i])))
	return name
}

// text returns the string at the address in an argument.
func (c call) text(i int) string {
	buf := make([]byte, 256)
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	n, err := unix.ProcessVMReadv(c.thread, local, []unix.RemoteIovec{{Base: uintptr(c.args[i]), Len: len(buf)}}, 0)
	if err != nil {
		return "?"
	}
	text, _, _ := bytes.Cut(buf[:n], []byte{0})
	return string(text)
}
