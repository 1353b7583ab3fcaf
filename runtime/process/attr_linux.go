// SPDX-License-Identifier: Apache-2.0

package process

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// execAttr is how a command of Exec starts: leader of its own session and
// process group, killed when the thread that started it ends.
func execAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// dropPrivileges keeps what this thread executes from gaining privileges.
func dropPrivileges() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }
