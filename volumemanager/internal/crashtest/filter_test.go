// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// boundaries selects the system calls at which a victim may be killed.
type boundaries int

const (
	// changes are the system calls with an effect: after any other call, the state is unchanged.
	changes boundaries = iota
	// everything are all system calls about files.
	everything
)

// changing are the system calls that change files, mounts or the state of a driver. openat is
// included only if it may create a file.
var changing = map[uint32]string{
	unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_SENDFILE: "sendfile", unix.SYS_COPY_FILE_RANGE: "copy_file_range",
	unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync",
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_MKNODAT: "mknodat", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_SYMLINKAT: "symlinkat",
	unix.SYS_LINKAT: "linkat", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
	unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHMODAT: "fchmodat", unix.SYS_FCHMODAT2: "fchmodat2",
	unix.SYS_FCHOWN: "fchown", unix.SYS_FCHOWNAT: "fchownat", unix.SYS_UTIMENSAT: "utimensat",
	unix.SYS_MOUNT: "mount", unix.SYS_UMOUNT2: "umount2", unix.SYS_MOVE_MOUNT: "move_mount", unix.SYS_MOUNT_SETATTR: "mount_setattr",
}

// reading are the other system calls about files.
var reading = map[uint32]string{
	unix.SYS_OPENAT: "openat", unix.SYS_OPENAT2: "openat2", unix.SYS_READLINKAT: "readlinkat", unix.SYS_GETDENTS64: "getdents64",
	unix.SYS_STATX: "statx", unix.SYS_STATFS: "statfs", unix.SYS_READ: "read", unix.SYS_CLOSE: "close", unix.SYS_CONNECT: "connect",
}

func callName(nr uint64) string {
	if name, ok := changing[uint32(nr)]; ok {
		return name
	}
	return reading[uint32(nr)]
}

// markCall is a system call that agents do not use. It has no effect with the arguments used here.
const (
	markCall  = unix.SYS_GETPRIORITY
	markMagic = 0x6b65656c0000
)

// mark is a message from a victim to its parent. The parent has the message before the victim
// continues.
type mark int

const (
	markPhase   mark = iota // a phase begins
	markBegin               // a new version of all objects is about to be set
	markUp                  // a pod has all its volumes, in a version
	markStart               // a container of the pod may start
	markGone                // a pod is about to be marked as gone
	markRemoved             // nothing is left of a pod
)

func tell(m mark, a, b int) {
	_, _, _ = unix.Syscall(markCall, uintptr(markMagic|int(m)), uintptr(a), uintptr(b))
}

// stopAt makes every thread of this process stop for its tracer at the boundaries and the marks.
// Without a tracer, these system calls fail from now on.
func stopAt(which boundaries) error {
	program := filter(which)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("seccomp: thread %d cannot have the filter", thread)
	}
	return nil
}

// filter returns a BPF program over struct seccomp_data: the first word is the number of the call,
// the arguments begin at byte 16.
func filter(which boundaries) []unix.SockFilter {
	calls := slices.Sorted(maps.Keys(changing))
	if which == everything {
		calls = append(calls, slices.Sorted(maps.Keys(reading))...)
	}
	calls = append(calls, markCall)
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	program := []unix.SockFilter{{Code: load, K: 0}}
	for i, nr := range calls {
		// Jump over the remaining comparisons, and the four instructions before the stop.
		program = append(program, unix.SockFilter{Code: equal, K: nr, Jt: uint8(len(calls) - 1 - i + 4)})
	}
	return append(program,
		unix.SockFilter{Code: equal, K: unix.SYS_OPENAT, Jf: 2},
		unix.SockFilter{Code: load, K: 16 + 2*8},
		unix.SockFilter{Code: bits, K: unix.O_CREAT, Jt: 1},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_TRACE},
	)
}
