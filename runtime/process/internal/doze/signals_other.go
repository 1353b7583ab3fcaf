// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package doze

import "golang.org/x/sys/unix"

// Blocked calls f.
func Blocked(f func()) { f() }

// Unblocked calls f.
func Unblocked(f func()) { f() }

// Blocks is false, because no process is started by Blocked here.
func Blocks(unix.Signal) bool { return false }
