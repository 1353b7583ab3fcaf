// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"net"
	"syscall"
)

// maxUnsent is the number of bytes that the kernel holds for a client whose receive window is closed.
// Writes wait while that many bytes are unsent. Bytes in flight do not count, so a client with a
// large window is served at full speed.
//
// Without the limit the kernel's buffer of a connection grows up to the last value of the sysctl
// net.ipv4.tcp_wmem, 4 MiB by default. Some hundred clients that never read then take all memory that
// the sysctl net.ipv4.tcp_mem grants to the TCP connections of the whole machine.
const maxUnsent = 128 << 10

// boundUnsent applies maxUnsent to a connection of TCP, also below TLS. Other connections, and systems
// without such a limit, are left as they are.
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
