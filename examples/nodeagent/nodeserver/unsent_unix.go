// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package nodeserver

import "golang.org/x/sys/unix"

// limitUnsent makes writes to a socket wait while the socket has that many unsent bytes.
func limitUnsent(fd uintptr, bytes int) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes) // no socket of TCP
}
