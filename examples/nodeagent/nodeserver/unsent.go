// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"net"
	"syscall"
)

// maxUnsent is the number of bytes that the kernel holds for a client whose receive window is closed.
// A write waits until fewer bytes are unsent. Bytes in flight do not count, so a client with a large
// window is served at full speed.
//
// Without the limit the kernel's buffer of a connection grows up to the last value of the sysctl
// net.ipv4.tcp_wmem, 4 MiB by default. With some hundred clients that never read, such buffers use up
// the memory of all TCP connections of the machine (the sysctl net.ipv4.tcp_mem).
const maxUnsent = 128 << 10

// boundUnsent applies maxUnsent to a connection of TCP, also below TLS. boundUnsent has no effect on
// other connections, and on systems without such a limit.
func boundUnsent(conn net.Conn) {
	if encrypted, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = encrypted.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { limitUnsent(fd, maxUnsent) }) // a closed connection holds no bytes
	}
}
