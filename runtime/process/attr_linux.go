// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

// execAttr makes a command of Exec the leader of a new session and process group. The kernel kills
// the command when the starting thread ends.
func execAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
