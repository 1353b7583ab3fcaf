// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/tiny"
)

// network returns the flag of a pod's network namespace.
func network(root *record.Root) uintptr {
	if root.Network == nil {
		return 0
	}
	return unix.CLONE_NEWNET
}

// owner returns the flag of the user namespace that owns a pod's network namespace.
func owner(ownUser bool) uintptr {
	if ownUser {
		return unix.CLONE_NEWUSER
	}
	return 0
}

// join makes the process a member of a pod's network namespace, or root of a user namespace that maps IDs, or both. Its
// child has the other namespaces for itself, and goes on.
func (s *stage) join(root *record.Root, pass func(*os.File) (int, error)) error {
	if root.Network == nil {
		if err := s.enterNewUsers(*root.IDs, pass); err != nil {
			return err
		}
	} else {
		inside, err := root.Network.Open()
		if err != nil {
			return fmt.Errorf("the pod's network is gone: %w", err)
		}
		defer inside.Close()
		fd, err := pass(inside.File())
		if err != nil {
			return err
		}
		s.add(must, "enter the pod's network", unix.SYS_SETNS, fd, unix.CLONE_NEWNET|owner(root.OwnUser))
	}
	flags := namespaces(root)
	if root.MapsIDs() {
		flags &^= unix.CLONE_NEWUSER
	}
	s.clone(uintptr(unix.SIGCHLD) | unix.CLONE_PARENT | flags)
	s.furnish(root)
	return nil
}

// HoldNetwork makes a process in a new network namespace, which does nothing and is killed when the calling
// thread ends. Every user of the namespace may listen on all ports.
func HoldNetwork(users record.Users) (pid int, err error) {
	if !Built {
		return 0, errNoNamespaces
	}
	c, err := newChild()
	if err != nil {
		return 0, err
	}
	defer c.close()
	s := c.stage
	groups := [2]int{os.Getegid(), os.Getegid()} // who may ping
	if users.IDs != nil {
		if err := s.enterNewUsers(*users.IDs, c.pass); err != nil {
			return 0, err
		}
		s.add(must, "network namespace", unix.SYS_UNSHARE, unix.CLONE_NEWNET)
		groups = [2]int{0, int(users.IDs.Groups.Count)}
	} else {
		s.flags |= unix.CLONE_NEWNET | owner(users.Own)
		if users.Own {
			s.mapUser(&record.Root{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
		}
	}
	s.write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
	s.write("/proc/sys/net/ipv4/ping_group_range", fmt.Sprintf("%d %d", groups[0], groups[1]))
	s.hold(0, 0) // otherwise pasta, which gives up its own capabilities, may not see the namespaces
	return c.wait()
}

// wait makes a process that waits for its end.
func (c *child) wait() (pid int, err error) {
	s := c.stage
	s.dieWithParent()
	s.add(must, "session", unix.SYS_SETSID)
	s.add(must, "close files", unix.SYS_CLOSE_RANGE, 0, uintptr(1<<32-1), 0)
	forever := s.Label()
	s.Place(forever)
	s.names = append(s.names, "")
	s.Call(tiny.Jump, forever, unix.SYS_PPOLL)
	return c.run()
}

// Socket returns a new socket in the network namespace of a process. The caller closes it.
func Socket(inside proc.Ref, ownUser bool, family, kind int) (fd int, err error) {
	if !Built {
		return -1, errNoNamespaces
	}
	h, err := inside.Open()
	if err != nil {
		return -1, err
	}
	defer h.Close()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	c, err := newChild()
	if err != nil {
		return -1, err
	}
	defer c.close()
	s := c.stage
	s.add(must, "enter the pod's network", unix.SYS_SETNS, h.File().Fd(), unix.CLONE_NEWNET|owner(ownUser))
	sent := ends[0] // a number that the socket does not get, because it is in use
	socket := s.add(must, "make a socket", unix.SYS_SOCKET, family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	s.add(must, "make a socket", unix.SYS_DUP3, socket, sent, unix.O_CLOEXEC)
	rights := unix.UnixRights(sent)
	list := []unix.Iovec{{}}
	list[0].SetLen(1)
	message := []unix.Msghdr{{}}
	message[0].SetIovlen(1)
	message[0].SetControllen(len(rights))
	lists, header := tiny.Values(&s.Program, list), tiny.Values(&s.Program, message)
	s.Point(lists, int(unsafe.Offsetof(list[0].Base)), s.Put([]byte{0}))
	s.Point(header, int(unsafe.Offsetof(message[0].Iov)), lists)
	s.Point(header, int(unsafe.Offsetof(message[0].Control)), s.Put(rights))
	s.add(must, "send the socket", unix.SYS_SENDMSG, ends[1], header, 0)
	s.add(must, "exit", unix.SYS_EXIT_GROUP, 0)
	pid, err := c.run()
	if err != nil {
		return -1, err
	}
	await(pid)
	return receive(ends[0])
}

// receive returns the descriptor that is waiting at one end of a pair of sockets.
func receive(from int) (fd int, err error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(from, make([]byte, 1), control, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("receive the socket: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, errors.New("receive the socket: no socket came")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("receive the socket: no socket came")
	}
	return fds[0], nil
}
