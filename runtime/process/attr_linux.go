// SPDX-License-Identifier: Apache-2.0

package process

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// execAttr makes a command of Exec the leader of a new session and process group. The kernel kills
// the command when the starting thread ends.
func execAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// dropPrivileges keeps what this thread executes from gaining privileges.
func dropPrivileges() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }
