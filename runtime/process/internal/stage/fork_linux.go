// SPDX-License-Identifier: Apache-2.0

package stage

import (
	goruntime "runtime"
	"syscall"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/tiny"
)

// The hooks of package runtime that package syscall calls around a fork. The runtime keeps them
// available to other packages by these names.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// fork makes a process with the flags of clone. The process does the steps, whose first has the
// address at, in a copy of this process's memory. The steps end with an exit.
//
// The process is a copy of one thread of a Go program, and may therefore neither allocate memory
// nor grow its stack: it makes only system calls, by the instructions of package tiny.
//
//go:noinline
//go:norace
func fork(flags uintptr, steps []tiny.Step, at uintptr, failed *tiny.Failed) (pid uintptr, errno syscall.Errno) {
	var (
		r    uintptr
		i    int
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
	for {
		s := &steps[i]
		args = s.Args
		for j := range args {
			if s.Loads&(1<<j) != 0 {
				args[j] = steps[(args[j]-at)/tiny.StepSize].Result
			}
		}
		r, _, errno = syscall.RawSyscall6(s.Number, args[0], args[1], args[2], args[3], args[4], args[5])
		s.Result = r
		jump := false
		switch s.Next {
		case tiny.Jump:
			jump = true
		case tiny.Parent:
			jump = errno != 0 || r != 0
		case tiny.Fails, tiny.Empty:
			if jump = errno != 0 || s.Next == tiny.Empty && r == 0; jump {
				failed.Step, failed.Error = at+uintptr(i)*tiny.StepSize, uintptr(errno)
			}
		case tiny.Execute:
			jump = errno != unix.ENOENT && errno != unix.ENOTDIR && errno != unix.EACCES
			if jump || failed.Error == 0 || errno == unix.EACCES {
				failed.Step, failed.Error = at+uintptr(i)*tiny.StepSize, uintptr(errno)
			}
		}
		if i++; jump {
			i = int((s.Target - at) / tiny.StepSize)
		}
	}
}
