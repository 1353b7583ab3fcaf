// SPDX-License-Identifier: Apache-2.0

package walls

import (
	"slices"
	"strings"
)

// allCapabilities is the name of all capabilities in the API.
const allCapabilities = "ALL"

// capSetpcap is the number of CAP_SETPCAP, which removes capabilities from the bounding set.
const capSetpcap = 8

// capSysAdmin is the number of CAP_SYS_ADMIN, which makes namespaces.
const capSysAdmin = 21

// capabilities are the names of Linux's capabilities in the order of their numbers.
var capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
	LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO
	SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE
	AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON
	BPF CHECKPOINT_RESTORE`)

// usual are the capabilities that container runtimes leave to root by default, without MKNOD:
// no container makes devices.
const usual = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<13 | 1<<18 | 1<<29 | 1<<31

// capNetBindService is the number of CAP_NET_BIND_SERVICE.
const capNetBindService = 10

// BindsPorts reports whether a name is that of NET_BIND_SERVICE, which is the right to listen on
// ports that other users may not listen on.
func BindsPorts(name string) bool {
	number, ok := capability(name)
	return ok && number == capNetBindService
}

// capability returns the number of a capability. Names in the API have no prefix CAP_; runtimes
// accept the prefix.
func capability(name string) (number int, ok bool) {
	number = slices.Index(capabilities, strings.TrimPrefix(strings.ToUpper(name), "CAP_"))
	return max(number, 0), number >= 0
}
