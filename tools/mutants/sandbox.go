// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os/exec"
	"syscall"
	"time"
)

// sandbox is the command that runs a test binary with an active fault. The fault
// may kill a wrong process, forget child processes or fill the memory. Where the
// system allows, the binary therefore has its own PID and mount namespaces, and
// the address space is limited to 6 GiB.
type sandbox []string

// newSandbox returns the strictest sandbox that this machine allows.
func newSandbox() sandbox {
	limit := sandbox{"sh", "-c", `ulimit -v 6291456 2>/dev/null; exec "$0" "$@"`}
	own := sandbox{"unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"}
	if exec.Command(own[0], append(own[1:len(own):len(own)], "true")...).Run() == nil {
		return append(own, limit...)
	}
	return limit
}

// command runs binary in dir. When ctx ends, all its processes are killed.
func (s sandbox) command(ctx context.Context, dir, binary string, args ...string) *exec.Cmd {
	line := append(append(append([]string{}, s...), binary), args...)
	c := exec.CommandContext(ctx, line[0], line[1:]...)
	c.Dir = dir
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	return c
}
