// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package apiservertest

import "syscall"

// attributes keep the interrupt of a terminal, which is for the test, away from
// its servers. A test process that is killed leaves them behind here.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
