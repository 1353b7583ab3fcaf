// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"os"
	"time"

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
	// Locked holds the lock for an instant; ask more than once.
	for range 5 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return f, nil
		}
		<-time.After(time.Millisecond)
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// Locked reports whether somebody holds the lock. A missing lock file is not
// held.
func Locked(dir *os.Root) (bool, error) {
	f, err := dir.OpenFile(LockFile, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// allocate does nothing: there is no portable way to set space aside.
func allocate(*os.File, int64) error { return nil }
