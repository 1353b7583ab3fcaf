// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// prepare sets the attributes of this process that the container's processes inherit.
func prepare() error {
	// An orphaned descendant becomes a child of this process, and not of process 1.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	// ps and top show this name. Argument 0 is the same name, and /proc/self/exe is not.
	_ = os.WriteFile("/proc/self/comm", []byte(record.ShimName), 0)
	return nil
}

// keep writes a value into sealed memory, which only this process holds and no process can change.
func keep(name string, v any) (*os.File, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(raw)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// hasEnded reports whether a child has ended, without reaping the child. The kernel does not reuse
// the PID and the process group's number before the child is reaped.
func hasEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// killGroup kills the container's process group, unless the main process was reaped and the group's
// number may be reused.
func (s *shim) killGroup() {
	if !s.ended.reaped {
		_ = unix.Kill(-s.main, unix.SIGKILL)
	}
}

// mine returns the children of this process. Killing a child by PID is safe, because the PID is not
// reused before the child is reaped. Orphaned descendants become children, too.
func mine(all []proc.Info) []proc.Info {
	return slices.DeleteFunc(all, func(p proc.Info) bool { return p.PPID != os.Getpid() })
}

// descriptors is the folder that lists this process's open descriptors.
const descriptors = "/proc/self/fd"
