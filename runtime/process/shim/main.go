// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"fmt"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/doze"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// A process that was started as a shim ends here. Packages that package shim does not import are not
// initialized then, unless their paths come before: a container does not pay for the agent's program.
func init() { Main() }

// Main returns at once unless this process was started as a shim. In a shim, Main runs the shim and
// ends the process. Call Main first in main.
func Main() {
	do := run
	switch {
	case os.Getenv(record.ShimEnv) != "1":
		return
	case len(os.Args) == 2 && os.Args[0] == record.ShimName:
	case len(os.Args) > 3 && os.Args[0] == record.NetworkName:
		do = keepNetwork
	case len(os.Args) > 1 && os.Args[0] == record.ReclaimName:
		do = reclaim
	case len(os.Args) == 2 && os.Args[0] == record.MeasureName:
		do = measure
	default:
		return
	}
	// The thread is never unlocked, and so lives as long as the process. The parent thread of
	// the container must not end before the container.
	goruntime.LockOSThread()
	if err := do(); err != nil {
		// Stderr is a file in the container's folder; the keeper of a network has none, and the agent reads that of reclaim and measure.
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// tidyDescriptors hides the lock and the status pipe from the container, and closes the descriptors
// beside keep that the agent, or the program before a nap, has passed on. Descriptors opened by Go in
// this process are close-on-exec already. Inherited descriptors are not.
func tidyDescriptors(keep ...int) {
	keep = append(keep, record.LockFD, record.NameFD) // without a name, the number is Go's own or is closed below
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < record.LockFD {
			continue
		}
		if slices.Contains(keep, fd) {
			unix.CloseOnExec(fd)
		} else if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// run starts the container and supervises the container until the end. After a nap, run goes on to
// supervise. The error is for shim.log. The agent got a report of a failed start, or sees the missing
// records.
func run() error {
	debug.SetGCPercent(20)
	s, err := wake()
	if err != nil {
		return err
	}
	if s != nil {
		s.supervise()
		return s.finish()
	}
	tidyDescriptors(record.StatusFD)
	dir, err := os.OpenRoot(".")
	if err != nil {
		return tell(record.Started{Error: err.Error()})
	}
	defer dir.Close()
	s = &shim{dir: dir, patience: leastPatience, light: doze.Blocks(record.StopSignal)}
	pid, err := s.start()
	if err != nil {
		return tell(record.Started{Error: err.Error()})
	}
	// Without a living agent the report is lost, and the next agent finds the records.
	_ = tell(record.Started{PID: pid})
	debug.FreeOSMemory() // the memory of the start is not needed any more
	s.supervise()
	return s.finish()
}

// tell sends the report to the agent.
func tell(m record.Started) error {
	f := os.NewFile(record.StatusFD, "status")
	if f == nil {
		return fmt.Errorf("no status descriptor; %s", m.Error)
	}
	defer f.Close()
	return json.NewEncoder(f).Encode(m)
}
