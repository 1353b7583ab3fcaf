// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Set reports the ends of many processes, with a single goroutine and no thread: all pidfds are in
// an epoll, and Go's poller waits for the epoll. Each process has a key and is reported once.
type Set struct {
	epoll *os.File
	wake  int // eventfd: mu.gone is not empty

	mu struct {
		sync.Mutex
		closed bool
		byFD   map[int32]string // pidfd to key
		keys   map[string]bool
		gone   []string // ended before Add
	}
}

// NewSet returns an empty set. The caller closes the set.
func NewSet() (*Set, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)})
	}
	if err == nil {
		err = unix.SetNonblock(epfd, true)
	}
	if err != nil {
		_ = unix.Close(epfd)
		_ = unix.Close(wake)
		return nil, fmt.Errorf("watch processes: %w", err)
	}
	s := &Set{epoll: os.NewFile(uintptr(epfd), "epoll"), wake: wake}
	s.mu.byFD, s.mu.keys = map[int32]string{}, map[string]bool{}
	return s, nil
}

// Has reports whether the set has a process with this key.
func (s *Set) Has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.closed || s.mu.keys[key]
}

// Add watches a process. The caller keeps the handle. A process that has already ended is reported,
// too. An existing key is not added again.
func (s *Set) Add(h *Handle, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || s.mu.keys[key] {
		return nil
	}
	conn, err := h.f.SyscallConn()
	if err != nil {
		return err
	}
	fd, dupErr := -1, error(nil)
	err = conn.Control(func(p uintptr) { fd, dupErr = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, dupErr); err != nil {
		return err
	}
	if err := s.control(unix.EPOLL_CTL_ADD, fd); err != nil {
		_ = unix.Close(fd)
		return err
	}
	s.mu.byFD[int32(fd)] = key
	s.mu.keys[key] = true
	return nil
}

// AddGone reports the key like that of an ended process.
func (s *Set) AddGone(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || s.mu.keys[key] {
		return nil
	}
	s.mu.gone = append(s.mu.gone, key)
	_, err := unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return err
}

// control adds a descriptor to the epoll, or removes it.
func (s *Set) control(op, fd int) error {
	conn, err := s.epoll.SyscallConn()
	if err != nil {
		return err
	}
	var ctlErr error
	err = conn.Control(func(p uintptr) {
		ctlErr = unix.EpollCtl(int(p), op, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	})
	return errors.Join(err, ctlErr)
}

// Wait returns the keys of at least one ended process, or the error of ctx. Only one call at a time
// is allowed.
func (s *Set) Wait(ctx context.Context) ([]string, error) {
	events := make([]unix.EpollEvent, 64)
	for {
		n := 0
		err := waitReadable(ctx, s.epoll, func(fd int) (bool, error) {
			var err error
			n, err = unix.EpollWait(fd, events, 0)
			return n > 0, err
		})
		if err != nil {
			return nil, err
		}
		if keys := s.take(events[:n]); len(keys) > 0 {
			return keys, nil
		}
	}
}

// take removes the ended processes from the set and returns their keys.
func (s *Set) take(events []unix.EpollEvent) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.mu.gone
	s.mu.gone = nil
	for _, ev := range events {
		if int(ev.Fd) == s.wake {
			var count [8]byte
			_, _ = unix.Read(s.wake, count[:])
			continue
		}
		key, ok := s.mu.byFD[ev.Fd]
		if !ok {
			continue
		}
		delete(s.mu.byFD, ev.Fd)
		delete(s.mu.keys, key)
		_ = s.control(unix.EPOLL_CTL_DEL, int(ev.Fd))
		_ = unix.Close(int(ev.Fd))
		keys = append(keys, key)
	}
	return keys
}

// Close ends the set. Add does nothing afterwards.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return
	}
	s.mu.closed = true
	for fd := range s.mu.byFD {
		_ = unix.Close(int(fd))
	}
	_ = unix.Close(s.wake)
	_ = s.epoll.Close()
}
