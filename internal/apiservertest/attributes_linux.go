// SPDX-License-Identifier: Apache-2.0

package apiservertest

import "syscall"

// attributes keep the interrupt of a terminal, which is for the test, away from
// its servers, and end them when the test process dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
