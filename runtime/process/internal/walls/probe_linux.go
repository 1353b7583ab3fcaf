// SPDX-License-Identifier: Apache-2.0

package walls

import (
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

// Probe asks the kernel.
func Probe() Host {
	h := Host{Linux: true, Root: os.Geteuid() == 0}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) == nil {
		h.Caps = uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32
		h.Caps &= 1<<len(capabilities) - 1
	}
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 {
		h.Landlock = int(abi)
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	h.FreePorts = 1024 // unless the kernel says otherwise
	if raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start"); err == nil {
		if least, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			h.FreePorts = least
		}
	}
	h.Seccomp = errno == 0 && architecture != 0 && stage.Built
	return h
}

func (h Host) namespaces() error { return stage.TryNamespaces(h.OwnUser()) }
