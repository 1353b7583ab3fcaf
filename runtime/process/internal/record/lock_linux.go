// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock takes the lock file of a container and returns the open file that
// holds it: ErrLocked if somebody else does. The lock belongs to the open file
// description: it is held until the last duplicate, in whatever process, is
// closed, and the kernel closes them for a process that is killed.
func TryLock(dir *os.Root) (*os.File, error) {
	f, err := dir.OpenFile(LockFile, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	err = fcntl(f, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// Locked reports whether somebody holds the lock, without ever holding it. A
// missing lock file is not held.
func Locked(dir *os.Root) (bool, error) {
	f, err := dir.OpenFile(LockFile, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	if err := fcntl(f, unix.F_OFD_GETLK, &lk); err != nil {
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return lk.Type != unix.F_UNLCK, nil
}

func fcntl(f *os.File, cmd int, lk *unix.Flock_t) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	err = conn.Control(func(fd uintptr) { lockErr = unix.FcntlFlock(fd, cmd, lk) })
	return errors.Join(err, lockErr)
}

func allocate(f *os.File, size int64) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var allocErr error
	err = conn.Control(func(fd uintptr) { allocErr = unix.Fallocate(int(fd), 0, 0, size) })
	return errors.Join(err, allocErr)
}
