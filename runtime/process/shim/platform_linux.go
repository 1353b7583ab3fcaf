// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// prepare sets what this process and the container's inherit.
func prepare(spec record.Spec) error {
	// What a descendant leaves behind when it dies becomes our child, not init's.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	// The name ps and top show; argument 0 says the same, /proc/self/exe does not.
	_ = os.WriteFile("/proc/self/comm", []byte(record.ShimName), 0)
	if !spec.NoNewPrivs {
		return nil
	}
	// Of this thread, and so of what it forks.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	return nil
}

// containerAttr is how a container's main process starts: leader of its own
// session and process group, killed when this thread dies.
func containerAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// descriptors is the folder that lists this process's open descriptors.
const descriptors = "/proc/self/fd"
