// SPDX-License-Identifier: Apache-2.0

package stage

import (
	goruntime "runtime"
	"syscall"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
)

// The hooks of package runtime that package syscall calls around a fork. The runtime keeps them
// available to other packages by these names.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// step is one system call of a stage.
type step struct {
	number  uintptr
	args    [6]uintptr
	results uint8 // a bit for each argument that is the number of an earlier call, whose result is meant
	kind    kind
	result  uintptr
}

// kind is the meaning of a call's error.
type kind uint8

const (
	must    kind = iota // the stage fails
	may                 // the error is ignored
	program             // an execve: the next program is tried if this program does not exist
	split               // a clone: the parent tells the child's PID and exits, the child goes on
)

// The first words of reports that are not errors.
const (
	noCall = ^uintptr(0) // the second word is a PID
	lives  = noCall - 1  // the process lives
)

// fork makes a process with the flags of clone. The process does the calls of the stage, in a copy
// of this process's memory, and writes two words to the descriptor report: the number of the call
// that failed and the error, or noCall and a PID.
//
// The process is a copy of one thread of a Go program, and may therefore neither allocate memory
// nor grow its stack: it does nothing but system calls.
//
//go:noinline
//go:norace
func fork(flags uintptr, calls []step, report uintptr, words *[2]uintptr, size uintptr, word uintptr) (pid uintptr, errno syscall.Errno) {
	var (
		r    uintptr
		last syscall.Errno
		args [6]uintptr
	)
	first, second := flags, uintptr(0)
	if goruntime.GOARCH == "s390x" {
		first, second = second, first
	}
	syscall.ForkLock.Lock()
	beforeFork()
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, first, second, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		afterFork()
		syscall.ForkLock.Unlock()
		return pid, errno
	}
	afterForkInChild()
	for i := range calls {
		c := &calls[i]
		args = c.args
		for j := range args {
			if c.results&(1<<j) != 0 {
				args[j] = calls[args[j]].result
			}
		}
		r, _, errno = syscall.RawSyscall6(c.number, args[0], args[1], args[2], args[3], args[4], args[5])
		c.result = r
		if errno == 0 {
			if c.kind == split && r != 0 {
				words[0], words[1] = noCall, r
				syscall.RawSyscall6(unix.SYS_WRITE, report, word, size, 0, 0, 0)
				syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
			}
			continue
		}
		switch c.kind {
		case may:
			continue
		case program:
			if last == 0 || errno == unix.EACCES {
				last = errno
			}
			absent := errno == unix.ENOENT || errno == unix.ENOTDIR || errno == unix.EACCES
			if absent && i+1 < len(calls) {
				continue
			}
			if absent {
				errno = last
			}
		}
		words[0], words[1] = uintptr(i), uintptr(errno)
		syscall.RawSyscall6(unix.SYS_WRITE, report, word, size, 0, 0, 0)
		break
	}
	for {
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 1, 0, 0, 0, 0, 0)
	}
}
