// SPDX-License-Identifier: Apache-2.0

package apiservertest

import "syscall"

// attributes start a process in its own process group, so that a terminal's interrupt reaches only
// the test. The process is killed when the test process dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
