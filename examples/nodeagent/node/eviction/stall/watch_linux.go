// SPDX-License-Identifier: Apache-2.0

package stall

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Memory is the file of stalls of the whole machine for memory.
const Memory = "/proc/pressure/memory"

// triggers are tried in order: a stall of some task for 70 ms within one second, or for 140 ms
// within two seconds. Only the second trigger needs no CAP_SYS_RESOURCE. The kernel reports at most
// one event within this time.
var triggers = []string{"some 70000 1000000\x00", "some 140000 2000000\x00"}

// Watch returns a channel that receives after a stall, and holds one value at most. Watch returns
// an error if the kernel has no PSI, or if the process may not use triggers.
func Watch(ctx context.Context, path string) (<-chan struct{}, error) {
	// No os.File: Go's poller would consume the events of the file.
	file, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	for _, trigger := range triggers {
		if _, err = unix.Write(file, []byte(trigger)); err == nil {
			break
		}
	}
	if err != nil {
		unix.Close(file)
		return nil, fmt.Errorf("%s: set a trigger: %w", path, err)
	}
	// Go's poller knows no priority events. So the poller waits for an epoll set, and the epoll set
	// waits for the event.
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.EpollCtl(set, unix.EPOLL_CTL_ADD, file, &unix.EpollEvent{Events: unix.EPOLLPRI})
	}
	if err == nil {
		err = unix.SetNonblock(set, true)
	}
	if err != nil {
		unix.Close(file)
		return nil, fmt.Errorf("%s: wait for events: %w", path, err)
	}
	wake := make(chan struct{}, 1)
	go wait(ctx, file, os.NewFile(uintptr(set), "epoll"), wake)
	return wake, nil
}

// wait sends to wake after each event until ctx ends. It closes file and set.
func wait(ctx context.Context, file int, set *os.File, wake chan<- struct{}) {
	defer unix.Close(file)
	defer set.Close()
	stop := context.AfterFunc(ctx, func() { _ = set.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := set.SyscallConn()
	if err != nil {
		return
	}
	for ctx.Err() == nil {
		isEvent := false
		err := conn.Read(func(fd uintptr) bool {
			// The epoll may be empty after the poller's wake-up, because a look at the event ends the event.
			var events [1]unix.EpollEvent
			_, _ = unix.EpollWait(int(fd), events[:], 0)
			defer func() { isEvent = true }()
			return isEvent
		})
		if err != nil {
			return
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}
