// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peerOf returns the process that connected to a unix socket.
func peerOf(conn net.Conn) (peer Peer, err error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return peer, errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return peer, err
	}
	var credentials *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(failed, err); err != nil {
		return peer, err
	}
	return Peer{UID: credentials.Uid, GID: credentials.Gid}, nil
}
