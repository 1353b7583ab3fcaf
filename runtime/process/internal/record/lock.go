// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked is the error for a lock with another holder: a shim, a start under way, or shortly a
// call that records the end of the container.
var ErrLocked = errors.New("locked")

// Lock is a held lock of a container. A container can delete or replace the lock file, so the lock
// also has a name in the kernel. Name is nil on systems without such names. Each half is held until
// the last duplicate of the descriptor is closed in any process. The kernel closes the descriptors
// of a killed process.
type Lock struct{ File, Name *os.File }

// Close closes this process's descriptors of the lock.
func (l *Lock) Close() {
	_ = l.File.Close()
	if l.Name != nil {
		_ = l.Name.Close()
	}
}

// LockFolder locks a folder. Close the returned file to unlock the folder. The error is
// ErrLocked if the folder is locked already.
func LockFolder(parent *os.Root, name string) (*os.File, error) {
	f, err := parent.Open(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, err
	}
	return f, nil
}
