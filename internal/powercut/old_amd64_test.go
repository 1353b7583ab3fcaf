// SPDX-License-Identifier: Apache-2.0

//go:build linux

package powercut_test

import "golang.org/x/sys/unix"

// The calls without a folder, used by shells on amd64.
const (
	sysMkdir   = unix.SYS_MKDIR
	sysSymlink = unix.SYS_SYMLINK
	sysUnlink  = unix.SYS_UNLINK
	sysRmdir   = unix.SYS_RMDIR
	sysLink    = unix.SYS_LINK
)

func old(r *recorder, p *pending) (pending, bool) {
	here := call{thread: p.thread, args: [6]uint64{cwd, p.args[0], cwd, p.args[1]}}
	ok := true
	switch p.nr {
	case sysMkdir, sysUnlink, sysRmdir, unix.SYS_MKNOD:
		p.path = here.path(0, 1)
	case sysSymlink:
		p.path = here.path(0, 3)
	case sysLink, unix.SYS_RENAME:
		p.path, p.to = here.path(0, 1), here.path(2, 3)
	default:
		ok = false
	}
	return r.look(*p, ok)
}

const cwd = ^uint64(99) // AT_FDCWD

// skipCall makes the call entered by a thread do nothing.
func skipCall(thread int) error {
	return editRegisters(thread, func(r *unix.PtraceRegs) { r.Orig_rax = ^uint64(0) })
}

// setResult sets the result of the call that a thread leaves.
func setResult(thread int, result int64) error {
	return editRegisters(thread, func(r *unix.PtraceRegs) { r.Rax = uint64(result) })
}

func editRegisters(thread int, edit func(*unix.PtraceRegs)) error {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread, &r); err != nil {
		return err
	}
	edit(&r)
	return unix.PtraceSetRegs(thread, &r)
}
