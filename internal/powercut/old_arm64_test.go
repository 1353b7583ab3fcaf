// SPDX-License-Identifier: Apache-2.0

//go:build linux

package powercut_test

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// arm64 does not have these calls.
const (
	sysMkdir = ^uint64(iota)
	sysSymlink
	sysUnlink
	sysRmdir
	sysLink
)

func old(_ *recorder, p *pending) (pending, bool) { return *p, false }

// skipCall makes the call entered by a thread do nothing.
func skipCall(thread int) error {
	const systemCall = 0x404 // the register set NT_ARM_SYSTEM_CALL
	none := int32(-1)
	return registerSet(unix.PTRACE_SETREGSET, thread, systemCall, unsafe.Pointer(&none), unsafe.Sizeof(none))
}

// setResult sets the result of the call that a thread leaves.
func setResult(thread int, result int64) error {
	const general = 1 // the register set NT_PRSTATUS
	var r unix.PtraceRegs
	if err := registerSet(unix.PTRACE_GETREGSET, thread, general, unsafe.Pointer(&r), unsafe.Sizeof(r)); err != nil {
		return err
	}
	r.Regs[0] = uint64(result)
	return registerSet(unix.PTRACE_SETREGSET, thread, general, unsafe.Pointer(&r), unsafe.Sizeof(r))
}

func registerSet(request, thread int, set uintptr, data unsafe.Pointer, size uintptr) error {
	vector := unix.Iovec{Base: (*byte)(data)}
	vector.SetLen(int(size))
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(thread), set, uintptr(unsafe.Pointer(&vector)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
