// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// port is a TCP port of 127.0.0.1, reserved while its socket is open. The socket is bound, so that
// no other program gets the port, but not listening, so that connections are refused. A server with
// port sharing (SO_REUSEPORT) can listen on the port, and gets the same port after a restart.
type port struct {
	number int
	socket int
}

// reservePort reserves a free port.
func reservePort() (port, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return port{}, os.NewSyscallError("socket", err)
	}
	unix.CloseOnExec(socket)
	number, err := bind(socket)
	if err != nil {
		return port{}, errors.Join(fmt.Errorf("reserve a port of 127.0.0.1: %w", err), unix.Close(socket))
	}
	return port{number, socket}, nil
}

// bind binds socket to a port that the system chooses.
func bind(socket int) (number int, err error) {
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	at, ok := address.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("bound to %T", address)
	}
	return at.Port, nil
}

// release gives the port back. The zero port has nothing to release.
func (p port) release() error {
	if p.number == 0 {
		return nil
	}
	return unix.Close(p.socket)
}

func (p port) String() string { return fmt.Sprintf("127.0.0.1:%d", p.number) }
