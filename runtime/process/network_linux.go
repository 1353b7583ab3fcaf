// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

// moveInside replaces a socket that is not connected yet by a socket in a pod's network.
func (r *Runtime) moveInside(inside proc.Ref, network string, c syscall.RawConn) error {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	switch network {
	case "tcp4":
	case "tcp6":
		family = unix.AF_INET6
	case "udp4", "udp6":
		kind = unix.SOCK_DGRAM
		if network == "udp6" {
			family = unix.AF_INET6
		}
	default:
		return net.UnknownNetworkError(network)
	}
	socket, err := stage.Socket(inside, r.host.OwnUser(), family, kind)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	var moved error
	err = c.Control(func(fd uintptr) { moved = unix.Dup3(socket, int(fd), unix.O_CLOEXEC) })
	return cmp.Or(err, moved)
}
