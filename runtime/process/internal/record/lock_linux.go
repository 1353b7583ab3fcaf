// SPDX-License-Identifier: Apache-2.0

package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock takes the lock of the container with the ID. The error is ErrLocked for a lock with
// another holder. The holder of the name may replace a lock file that is not a regular file any
// more.
func TryLock(dir *os.Root, id string) (*Lock, error) {
	name, err := bindName(id)
	if err != nil {
		return nil, err
	}
	file, err := lockFile(dir)
	if err != nil {
		_ = name.Close()
		return nil, err
	}
	return &Lock{File: file, Name: name}, nil
}

// lockFile locks the lock file, and replaces a file of another type with a new lock file.
func lockFile(dir *os.Root) (*os.File, error) {
	f, err := openLock(dir, os.O_RDWR|os.O_CREATE)
	if err != nil {
		if err := dir.RemoveAll(LockFile); err != nil {
			return nil, fmt.Errorf("replace a file that is not a lock: %w", err)
		}
		if f, err = openLock(dir, os.O_RDWR|os.O_CREATE); err != nil {
			return nil, err
		}
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

// openLock opens the lock file, and fails for a file of another type.
func openLock(dir *os.Root, flag int) (*os.File, error) {
	f, err := dir.OpenFile(LockFile, flag|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.Name())
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Locked reports whether the lock of the container with the ID is held, without taking the lock.
// One held half is enough, because the file may have been removed or replaced, and the name is
// invisible in another network namespace.
func Locked(dir *os.Root, id string) (bool, error) {
	if held, err := nameBound(id); held || err != nil {
		return held, err
	}
	f, err := openLock(dir, os.O_RDONLY)
	if err != nil {
		return false, nil // the name is free, and no lock file exists
	}
	defer f.Close()
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	if err := fcntl(f, unix.F_OFD_GETLK, &lk); err != nil {
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return lk.Type != unix.F_UNLCK, nil
}

// lockName returns the name of a container in the abstract namespace of unix sockets. The salts in
// the ID keep other programs from guessing the name before the name is bound.
func lockName(id string) *unix.SockaddrUnix {
	sum := sha256.Sum256([]byte(id))
	return &unix.SockaddrUnix{Name: "@keelson-process/" + hex.EncodeToString(sum[:16])}
}

// datagram opens a socket. The socket never receives a message.
func datagram() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

// bindName binds a container's name. The error is ErrLocked for a bound name.
func bindName(id string) (*os.File, error) {
	fd, err := datagram()
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := unix.Bind(fd, lockName(id)); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	return os.NewFile(uintptr(fd), "name"), nil
}

// nameBound reports whether a container's name is bound, without an effect on the holder.
func nameBound(id string) (bool, error) {
	fd, err := datagram()
	if err != nil {
		return false, fmt.Errorf("lock: %w", err)
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, lockName(id))
	if errors.Is(err, unix.ECONNREFUSED) {
		return false, nil
	}
	// EPERM and EACCES: a security module forbids the connection, so the name is bound.
	return err == nil || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES), nil
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
