// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

// newTerminal opens a terminal for a command and starts to copy. When the session ends, the kernel
// sends SIGHUP to the processes of the terminal.
func newTerminal(s runtime.Session) (*streams, error) {
	master, slave, err := openTerminal()
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	out := s.Stdout
	if out == nil {
		out = io.Discard
	}
	t := &streams{theirs: []*os.File{slave}}
	t.connect = func(c *stage.Command) { c.Files, c.Terminal = [3]*os.File{slave, slave, slave}, true }
	t.copyOutput(master, out)
	if s.Stdin != nil {
		go copyInput(master, s.Stdin) // ends with Stdin, or with the terminal
	}
	if s.Resize != nil {
		go resizeTerminal(master, s.Resize) // ends with the channel
	}
	return t, nil
}

// openTerminal returns both ends of a new terminal.
func openTerminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	number := 0
	control := func(fd uintptr) {
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		err = errors.Join(err, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
	}
	if raw, rawErr := master.SyscallConn(); rawErr == nil {
		err = errors.Join(raw.Control(control), err)
	} else {
		err = rawErr
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

// resizeTerminal sets each size, until the channel is closed or the terminal is.
func resizeTerminal(master *os.File, sizes <-chan runtime.TerminalSize) {
	raw, err := master.SyscallConn()
	if err != nil {
		return
	}
	for size := range sizes {
		err := raw.Control(func(fd uintptr) {
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width})
		})
		if err != nil {
			return
		}
	}
}
