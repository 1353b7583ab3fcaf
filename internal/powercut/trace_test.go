// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package powercut_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tracer lets a program and its children run, and shows a recorder each of their system calls.
type tracer struct {
	recorder *recorder
	// faults, if not nil, makes calls fail; failing are the calls of threads that do.
	faults  *faults
	failing map[int]syscall.Errno
	// known are the threads after their first stop; in are the calls in progress by thread.
	known map[int]bool
	in    map[int]pending
	// naming is the thread within a call on names, or 0. The calls on names of other threads wait for its end in turn:
	// the ends of calls in parallel are not reported in the order of their changes.
	naming int
	queue  []call

	mu struct {
		sync.Mutex
		threads map[int]bool
		ends    map[int]chan struct{} // by process ID
	}
}

// watch closes ended when a process has ended.
func (tr *tracer) watch(pid int, ended chan struct{}) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.mu.ends = map[int]chan struct{}{pid: ended}
}

// call is a system call that a thread is about to make.
type call struct {
	thread int
	nr     uint64
	args   [6]uint64
}

// run starts a program and returns when all threads of the program and its children have ended. started is called with
// its process ID.
func (tr *tracer) run(program string, args, env []string, output *os.File, started func(pid int)) error {
	runtime.LockOSThread() // all ptrace calls must come from the same thread
	defer runtime.UnlockOSThread()
	tr.known, tr.in, tr.failing = map[int]bool{}, map[int]pending{}, map[int]syscall.Errno{}
	tr.mu.threads = map[int]bool{}
	process, err := os.StartProcess(program, append([]string{program}, args...), &os.ProcAttr{
		Env: env, Files: []*os.File{nil, output, output}, Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return err
	}
	pid := process.Pid
	_ = process.Release()
	tr.seen(pid)
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
		return err
	}
	const options = unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACEEXEC |
		unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return err
	}
	started(pid)
	_ = unix.PtraceSyscall(pid, 0)
	for {
		thread, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ECHILD:
			return nil
		case err != nil:
			return fmt.Errorf("wait for the traced program: %w", err)
		case status.Exited() || status.Signaled():
			tr.gone(thread)
		default:
			tr.stopped(thread, status)
		}
	}
}

func (tr *tracer) seen(thread int) {
	tr.known[thread] = true
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.mu.threads[thread] = true
}

func (tr *tracer) gone(thread int) {
	delete(tr.known, thread)
	delete(tr.in, thread)
	delete(tr.failing, thread)
	tr.queue = slices.DeleteFunc(tr.queue, func(c call) bool { return c.thread == thread })
	tr.named(thread)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	delete(tr.mu.threads, thread)
	if ended := tr.mu.ends[thread]; ended != nil {
		delete(tr.mu.ends, thread)
		close(ended)
	}
}

// kill is the power cut for the traced processes.
func (tr *tracer) kill() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for thread := range tr.mu.threads {
		_ = unix.Kill(thread, unix.SIGKILL) // the process ID of an unreaped process is not reused
	}
}

// named ends a thread's call on names and lets the waiting threads continue, up to the next call on names.
func (tr *tracer) named(thread int) {
	if tr.naming != thread {
		return
	}
	tr.naming = 0
	for tr.naming == 0 && len(tr.queue) > 0 {
		c := tr.queue[0]
		tr.queue = tr.queue[1:]
		tr.enter(c)
		_ = unix.PtraceSyscall(c.thread, 0)
	}
}

// enter begins a call, and reports whether its thread must wait for a call on names.
func (tr *tracer) enter(c call) (wait bool) {
	p, ok := tr.recorder.begin(c)
	switch {
	case !ok:
		return false
	case p.fd < 0 && tr.naming != 0:
		tr.queue = append(tr.queue, c)
		return true
	case p.fd < 0:
		tr.naming = c.thread
	}
	tr.in[c.thread] = p
	return false
}

// stopped handles one stop, and lets the thread continue.
func (tr *tracer) stopped(thread int, status unix.WaitStatus) {
	first := !tr.known[thread]
	if first {
		tr.seen(thread)
	}
	signal := status.StopSignal()
	switch {
	case signal == unix.SIGTRAP|0x80:
		if tr.systemCall(thread) {
			return
		}
		signal = 0
	case signal == unix.SIGTRAP && status.TrapCause() > 0, first && signal == unix.SIGSTOP:
		signal = 0
	}
	_ = unix.PtraceSyscall(thread, int(signal)) // a thread killed meanwhile cannot continue
}

// systemCall handles the entry to a call or its exit, and reports whether the thread must wait.
func (tr *tracer) systemCall(thread int) (wait bool) {
	// struct ptrace_syscall_info: op, arch, two pointers, then the number and the arguments, or the result.
	var info struct {
		op, _ uint32
		_, _  uint64
		data  [8]uint64
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return false
	}
	switch info.op & 0xff {
	case unix.PTRACE_SYSCALL_INFO_ENTRY:
		c := call{thread: thread, nr: info.data[0]}
		copy(c.args[:], info.data[1:7])
		if tr.faults != nil {
			if errno := tr.faults.strike(c); errno != 0 && skipCall(thread) == nil {
				tr.failing[thread] = errno
			}
			return false
		}
		return tr.enter(c)
	case unix.PTRACE_SYSCALL_INFO_EXIT:
		if errno, ok := tr.failing[thread]; ok {
			delete(tr.failing, thread)
			_ = setResult(thread, -int64(errno)) // a thread killed meanwhile needs no result
		}
		p, ok := tr.in[thread]
		delete(tr.in, thread)
		if result := int64(info.data[0]); ok && result >= 0 {
			tr.recorder.end(p, result)
		}
		tr.named(thread)
	}
	return false
}

// path returns the path of the arguments dir and name of a call.
func (c call) path(dir, name int) string {
	text := c.text(name)
	switch {
	case text == "" || filepath.IsAbs(text):
		return filepath.Clean(text)
	case int32(c.args[dir]) == unix.AT_FDCWD:
		return c.below("cwd", text)
	}
	return c.below(fmt.Sprintf("fd/%d", int32(c.args[dir])), text)
}

func (c call) below(link, name string) string {
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", c.thread, link))
	if err != nil {
		return "/"
	}
	return filepath.Join(dir, name)
}

// file is where the open file of an argument, or of a result, can be reached.
func (c call) file(fd int64) string { return fmt.Sprintf("/proc/%d/fd/%d", c.thread, int32(fd)) }

// text returns the string at the address in an argument.
func (c call) text(i int) string {
	buf := make([]byte, unix.PathMax)
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	n, err := unix.ProcessVMReadv(c.thread, local, []unix.RemoteIovec{{Base: uintptr(c.args[i]), Len: len(buf)}}, 0)
	for ; errors.Is(err, unix.EFAULT) && len(buf) > 256; n, err = unix.ProcessVMReadv(c.thread, local, []unix.RemoteIovec{{Base: uintptr(c.args[i]), Len: len(buf)}}, 0) {
		buf = buf[:len(buf)/2]
		local[0].SetLen(len(buf))
	}
	if err != nil {
		return ""
	}
	text, _, _ := bytes.Cut(buf[:n], []byte{0})
	return string(text)
}
