// SPDX-License-Identifier: Apache-2.0

package file

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// stamp changes with a file's content, within the resolution of the file system's clock.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func stampOf(info fs.FileInfo) stamp {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return stampOfStat(sys)
	}
	return stamp{size: info.Size()}
}

func stampOfStat(s *syscall.Stat_t) stamp {
	return stamp{dev: uint64(s.Dev), ino: s.Ino, size: s.Size, mtime: s.Mtim, ctime: s.Ctim}
}

// hasStamp reports whether path certainly leads to the unchanged file of the stamp. It is called
// for every file of a folder after a change, and unlike os.Stat does not allocate.
func hasStamp(path string, of stamp) bool {
	var s syscall.Stat_t
	return syscall.Stat(path, &s) == nil && stampOfStat(&s) == of
}

// changed returns the time of the last change of the file's content or metadata.
func (s stamp) changed() time.Time { return time.Unix(s.ctime.Unix()) }

// openForWriting requests a read lease, which the kernel grants only if no process has the file
// open for writing, and releases it at once. The process must own the file or have CAP_LEASE, and
// the file system must support leases; otherwise the result is writerUnknown.
func openForWriting(f *os.File) writer {
	conn, err := f.SyscallConn()
	if err != nil {
		return writerUnknown
	}
	answer := writerUnknown
	_ = conn.Control(func(fd uintptr) {
		_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_SETLEASE, syscall.F_RDLCK)
		switch errno {
		case 0:
			answer = writerAbsent
			_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_SETLEASE, syscall.F_UNLCK)
		case syscall.EAGAIN:
			answer = writerPresent
		}
	})
	return answer
}
