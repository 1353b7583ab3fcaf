// SPDX-License-Identifier: Apache-2.0

package topdir

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flag is FS_TOPDIR_FL of linux/fs.h.
const flag = 0x20000

// Mark sets the flag on the open folder dir. The flag is a hint and does not change the paths of files. A file system
// without the flag returns an error, which can be ignored. A folder with the flag is not written to.
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
