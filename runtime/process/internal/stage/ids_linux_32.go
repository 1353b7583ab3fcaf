// SPDX-License-Identifier: Apache-2.0

//go:build linux && (386 || arm)

package stage

import "golang.org/x/sys/unix"

// The calls that take user and group IDs of 32 bits.
const (
	setgroups = unix.SYS_SETGROUPS32
	setresgid = unix.SYS_SETRESGID32
	setresuid = unix.SYS_SETRESUID32
)
