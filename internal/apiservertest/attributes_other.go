// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package apiservertest

import "syscall"

// attributes start a process in its own process group, so that a terminal's interrupt reaches only
// the test. On these systems a killed test process leaves its servers behind.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
