// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package stage

import (
	"errors"
	"os"
	"syscall"
)

// ErrLinux is the error of walls on another system.
var ErrLinux = errors.New("only Linux has walls")

// Start makes a process in a new session, and refuses walls.
func Start(c Command) (*os.Process, error) {
	if c.Walls.Any() {
		return nil, ErrLinux
	}
	return os.StartProcess(c.Programs[0], c.Args, &os.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: c.Files[:], Sys: &syscall.SysProcAttr{Setsid: true, Setctty: c.Terminal},
	})
}
