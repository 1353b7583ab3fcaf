// SPDX-License-Identifier: Apache-2.0

package file

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// stamp changes whenever a file's content does, within the resolution of the file system's clock.
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

// hasStamp tells whether what the path leads to is certainly the file of a stamp, unchanged. It is os.Stat without the
// garbage: it is asked of every file of a folder whenever one of them changes.
func hasStamp(path string, of stamp) bool {
	var s syscall.Stat_t
	return syscall.Stat(path, &s) == nil && stampOfStat(&s) == of
}

// changed is when the file's content or metadata last changed.
func (s stamp) changed() time.Time { return time.Unix(s.ctime.Unix()) }

// openForWriting asks the kernel for a read lease, which it grants only if nobody has the file open for writing, and
// gives it back at once. It needs to own the file or CAP_LEASE, and a file system that knows leases; else it tells
// nothing.
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
