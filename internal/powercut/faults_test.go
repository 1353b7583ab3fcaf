// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package powercut_test

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// faults makes system calls of the traced programs on files below a folder fail: from call number at on, at most count
// calls, for at most faultTime.
type faults struct {
	recorder *recorder
	at       int
	count    int
	errno    syscall.Errno

	mu     sync.Mutex
	points int        // calls so far that could have failed
	kinds  [kinds]int // calls so far of each kind
	struck []string
	over   time.Time // zero before the first call fails
}

// faultTime is how long a disk has a fault. An agent that makes ever longer pauses comes through all calls of a long fault
// only in minutes.
const faultTime = 2 * time.Second

// kind is the kind of a call's disk access.
type kind int

const (
	reads   kind = iota // opens a file that is there
	makes               // needs room for a name or for content
	changes             // needs no room
	kinds               // how many there are
)

// may reports whether a call of a kind fails with errno on a disk with a fault.
func (k kind) may(errno syscall.Errno) bool {
	switch errno {
	case unix.ENOSPC:
		return k == makes
	case unix.EROFS:
		return k != reads
	}
	return true
}

// strike returns the error of a failing call, or 0.
func (f *faults) strike(c call) syscall.Errno {
	k, path, ok := f.look(c)
	if !ok {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kinds[k]++
	if !k.may(f.errno) {
		return 0
	}
	n := f.points
	f.points++
	if n < f.at || n >= f.at+f.count {
		return 0
	}
	if f.over.IsZero() {
		f.over = time.Now().Add(faultTime)
	}
	if time.Now().After(f.over) {
		return 0
	}
	f.struck = append(f.struck, unixName(c.nr)+" "+strings.TrimPrefix(path, f.recorder.root))
	return f.errno
}

// look returns the kind and the path of a call, if the path is below the root.
func (f *faults) look(c call) (k kind, path string, ok bool) {
	p := pending{call: c, fd: -1}
	if c.nr == unix.SYS_OPENAT && c.args[2]&(unix.O_CREAT|unix.O_TRUNC) == 0 {
		p.path = c.path(0, 1)
		return reads, p.path, f.recorder.below(p.path)
	}
	p, ok = f.recorder.begin(c)
	if !ok || p.foreign {
		return 0, "", false
	}
	k, path = makes, p.path
	switch c.nr {
	case unix.SYS_UNLINKAT, sysUnlink, sysRmdir, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHMOD:
		k = changes
	}
	if p.fd >= 0 {
		path, _ = os.Readlink(c.file(p.fd))
	}
	return k, path, f.recorder.below(path) || f.recorder.below(p.to)
}

// seen returns the failed calls.
func (f *faults) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

// pointsOf returns how many calls could have failed with errno.
func (f *faults) pointsOf(errno syscall.Errno) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, calls := range f.kinds {
		if kind(k).may(errno) {
			n += calls
		}
	}
	return n
}

var callNames = map[uint64]string{
	unix.SYS_OPENAT: "open", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "write", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fsync",
	unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename", unix.SYS_MKDIRAT: "mkdir", unix.SYS_UNLINKAT: "unlink", unix.SYS_LINKAT: "link",
	unix.SYS_SYMLINKAT: "symlink", unix.SYS_FCHMOD: "chmod", unix.SYS_FCHMODAT: "chmod", unix.SYS_MKNODAT: "mknod", unix.SYS_FTRUNCATE: "truncate",
}

func unixName(nr uint64) string {
	if name := callNames[nr]; name != "" {
		return name
	}
	return "call"
}
