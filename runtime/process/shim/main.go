// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"fmt"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Main returns at once unless this process was started to be a shim. Then it
// runs the shim and ends the process. It comes first in main.
func Main() {
	if len(os.Args) != 2 || os.Args[0] != record.ShimName || os.Getenv(record.ShimEnv) != "1" {
		return
	}
	// One thread does everything that depends on which thread does it; it is
	// never unlocked, so it lives as long as the process.
	goruntime.LockOSThread()
	tidyDescriptors()
	if err := run(); err != nil {
		// Stderr is a file in the container's folder.
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// tidyDescriptors keeps the lock and the status pipe from the container, and
// closes what the agent had inherited itself and passed on unknowingly. What Go
// opens in this process is marked close-on-exec, what was inherited cannot be.
func tidyDescriptors() {
	unix.CloseOnExec(record.LockFD)
	unix.CloseOnExec(record.StatusFD)
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= record.StatusFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// run is the life of a shim. The error is for shim.log; the agent was told by
// then, or finds out by what is missing on disk.
func run() error {
	dir, err := os.OpenRoot(".")
	if err != nil {
		return tell(record.Started{Error: err.Error()})
	}
	defer dir.Close()
	s := &shim{dir: dir}
	pid, err := s.start()
	if err != nil {
		return tell(record.Started{Error: err.Error()})
	}
	// If the agent is gone by now it cannot be told; the next one finds the records.
	_ = tell(record.Started{PID: pid})
	// What starting needed is needed no more.
	debug.SetGCPercent(20)
	debug.FreeOSMemory()
	return s.finish(s.supervise())
}

// tell sends one message to who started this shim.
func tell(m record.Started) error {
	f := os.NewFile(record.StatusFD, "status")
	if f == nil {
		return fmt.Errorf("no status descriptor; %s", m.Error)
	}
	defer f.Close()
	return json.NewEncoder(f).Encode(m)
}
