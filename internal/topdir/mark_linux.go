// SPDX-License-Identifier: Apache-2.0

package topdir

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flag is FS_TOPDIR_FL of linux/fs.h.
const flag = 0x20000

// Mark marks the folder that dir is open for. It is a hint: what it does not change is where files are found, and a file
// system that does not know it returns an error, which can be ignored. A folder that has the mark is not written to.
func Mark(dir *os.File) error {
	raw, err := dir.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		flags, err := unix.IoctlGetUint32(int(fd), unix.FS_IOC_GETFLAGS)
		if err == nil && flags&flag == 0 {
			err = unix.IoctlSetPointerInt(int(fd), unix.FS_IOC_SETFLAGS, int(flags|flag))
		}
		if err != nil {
			failed = fmt.Errorf("mark %s as a top of folders: %w", dir.Name(), err)
		}
	})
	if err != nil {
		return err
	}
	return failed
}
