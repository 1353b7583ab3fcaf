// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"encoding/binary"
	"fmt"
	"os"
	goruntime "runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/tiny"
)

// child is a stage that a copy of this process does.
type child struct {
	*stage
	hear, tell int // a pipe for reports
	passed     []int
	failed     *tiny.Failed
}

// newChild returns an empty stage. The caller closes it.
func newChild() (*child, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	c := &child{stage: newStage(), hear: ends[0], tell: ends[1], failed: &tiny.Failed{}}
	// A process whose parent has ended cannot write this report, and ends as well.
	c.wary = func() {
		c.add(may, "", unix.SYS_CLOSE, c.hear)
		c.add(must, "parent", unix.SYS_WRITE, c.tell, tiny.Values(&c.Program, []uintptr{lives, 0}), 2*wordSize)
	}
	return c, nil
}

func (c *child) close() {
	for _, fd := range append(c.passed, c.hear, c.tell) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// pass duplicates a descriptor, which the process inherits.
func (c *child) pass(f *os.File) (fd int, err error) {
	fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		c.passed = append(c.passed, fd)
	}
	return fd, err
}

// run makes the process. It returns when the process has executed its program, has exited because
// its calls are done, or has failed. The caller's thread is the parent, for PR_SET_PDEATHSIG.
func (c *child) run() (pid int, err error) {
	c.end(tiny.N(uintptr(unsafe.Pointer(c.failed))), tiny.N(c.tell))
	c.Place(c.split) // the process between
	c.add(may, "", unix.SYS_WRITE, c.tell, c.made.Pair(), 2*wordSize)
	c.add(may, "", unix.SYS_EXIT_GROUP, 0)
	steps, memory := make([]tiny.Step, c.Len()), make([]byte, c.Size()+1)
	at := uintptr(unsafe.Pointer(&steps[0]))
	c.Assemble(steps, at, memory, uintptr(unsafe.Pointer(&memory[0])))
	first, errno := fork(c.flags, steps, at, c.failed)
	goruntime.KeepAlive(memory)
	_ = unix.Close(c.tell)
	c.tell = -1
	if errno != 0 {
		return 0, fmt.Errorf("make namespaces: %w", errno)
	}
	pid = int(first)
	raw, err := readAll(c.hear)
	if err != nil {
		return 0, err
	}
	// The process between and its child write in any order.
	for ; len(raw) >= 2*wordSize; raw = raw[2*wordSize:] {
		switch what, result := twoWords(raw); what {
		case lives:
		case made:
			await(pid) // the process between
			if pid = int(result); pid < 0 {
				return 0, fmt.Errorf("make namespaces: %w", syscall.Errno(-pid))
			}
		default:
			err = c.failure(at, what, result)
		}
	}
	if err != nil {
		await(pid)
		return 0, err
	}
	return pid, nil
}

// twoWords returns the two words of a report.
func twoWords(raw []byte) (what, result uintptr) {
	if wordSize == 4 {
		return uintptr(binary.NativeEndian.Uint32(raw)), uintptr(binary.NativeEndian.Uint32(raw[4:]))
	}
	return uintptr(binary.NativeEndian.Uint64(raw)), uintptr(binary.NativeEndian.Uint64(raw[8:]))
}

// Errno returns the error in a report to a Holder's ReportFD.
func Errno(report []byte) syscall.Errno {
	if len(report) < 2*wordSize {
		return 0
	}
	_, errno := twoWords(report)
	return syscall.Errno(errno)
}

// readAll reads the report until the process has executed its program or has ended.
func readAll(fd int) (out []byte, err error) {
	buf := make([]byte, 256)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
		case err != nil || n == 0:
			return out, err
		default:
			out = append(out, buf[:n]...)
		}
	}
}

// await reaps a child.
func await(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}
