// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	"github.com/keelson-dev/keelson/internal/kernelfile"
)

// Usage is the usage of a cgroup since it was made. A value that the kernel does not tell is zero.
type Usage struct {
	User, System                   time.Duration // processor time
	Periods, ThrottledPeriods      uint64        // of the limit of processor time
	ThrottledTime                  time.Duration
	Cache, MaxMemory               uint64 // bytes; MaxMemory is the highest usage
	MemoryFailures, OOMKills       uint64 // allocations at the limit, and killed processes
	Tasks                          uint64 // processes and threads
	IO                             []IO
	CPUStall, MemoryStall, IOStall Stall
}

// IO is the traffic with a block device.
type IO struct {
	Device                string // MAJOR:MINOR
	ReadBytes, WriteBytes uint64
	Reads, Writes         uint64 // operations
}

// Stall is the time that processes waited for a resource. Known is false without the kernel's
// pressure stall information, as on cgroup version 1.
type Stall struct {
	Known               bool
	Some, All           time.Duration // some of the processes, or all, waited
	SomeShare, AllShare Averages
}

// Averages are the shares of the time, in percent, over the last 10, 60 and 300 seconds.
type Averages [3]float64

// Pressure is the pressure stall information of a cgroup or of the machine.
type Pressure struct{ CPU, Memory, IO Stall }

// IsKnown reports whether the kernel tells a part of the pressure.
func (p *Pressure) IsKnown() bool { return p.CPU.Known || p.Memory.Known || p.IO.Known }

// Pressure returns the pressure in a cgroup, by its path. Nothing is known of it on cgroup version 1.
func (t *Tree) Pressure(path string) (p Pressure) {
	if !t.unified || path == "" {
		return p
	}
	dir := folder(filepath.Join(t.root, path))
	return Pressure{dir.stall("cpu.pressure"), dir.stall("memory.pressure"), dir.stall("io.pressure")}
}

// MachinePressure returns the pressure on the machine. root is the root of its file system.
func MachinePressure(root string) Pressure {
	dir := folder(filepath.Join(root, "/proc/pressure"))
	return Pressure{dir.stall("cpu"), dir.stall("memory"), dir.stall("io")}
}

// Usage returns the usage of a container, and false if its cgroup is not known or is gone.
func (t *Tree) Usage(id string) (u Usage, ok bool) {
	p := t.paths[id]
	if p == "" {
		return u, false
	}
	if _, err := os.Stat(t.controller("memory") + p); err != nil {
		return u, false
	}
	if t.unified {
		return t.unifiedUsage(folder(t.root + p)), true
	}
	return t.legacyUsage(p), true
}

// Memory is the memory of a cgroup and the cgroups below, in bytes.
type Memory struct {
	Limit                       uint64 // 0: no limit
	Usage                       uint64
	WorkingSet                  uint64 // usage without inactive pages of files
	RSS                         uint64 // anonymous memory
	PageFaults, MajorPageFaults uint64 // since the cgroup was made
	Swap                        uint64 // 0 if the kernel does not count swap
}

// Memory returns the memory of a cgroup by its path, and false if there is no such cgroup. It
// may be called by several goroutines.
func (t *Tree) Memory(path string) (m Memory, ok bool) {
	dir := folder(filepath.Join(t.controller("memory"), path))
	limit, usage, prefix, rss := "memory.limit_in_bytes", "memory.usage_in_bytes", "total_", "rss"
	if t.unified {
		limit, usage, prefix, rss = "memory.max", "memory.current", "", "anon"
	}
	if m.Usage, ok = dir.value(usage); !ok {
		return m, false
	}
	m.WorkingSet, m.Limit = m.Usage, limited(dir.number(limit))
	var buffer [kernelfile.Size]byte
	for key, n, rest := nextCounter(dir.read("memory.stat", buffer[:])); len(key) > 0; key, n, rest = nextCounter(rest) {
		name, whole := bytes.CutPrefix(key, []byte(prefix))
		if !whole {
			continue
		}
		switch string(name) {
		case "inactive_file":
			m.WorkingSet = m.Usage - min(m.Usage, n)
		case rss:
			m.RSS = n
		case "pgfault":
			m.PageFaults = n
		case "pgmajfault":
			m.MajorPageFaults = n
		case "swap": // of version 1
			m.Swap = n
		}
	}
	if t.unified {
		m.Swap = dir.number("memory.swap.current")
	}
	return m, true
}

// limited returns a limit in bytes, 0 for the kernel's number for none. "max" is read as 0.
func limited(n uint64) uint64 {
	if n >= 1<<62 {
		return 0
	}
	return n
}

// CPU returns the processor time of a cgroup and the cgroups below, by its path, and false if there is
// no such cgroup. It may be called by several goroutines.
func (t *Tree) CPU(path string) (used time.Duration, ok bool) {
	if !t.unified {
		n, ok := folder(filepath.Join(t.controller("cpuacct"), path)).value("cpuacct.usage")
		return time.Duration(n), ok
	}
	var buffer [kernelfile.Size]byte
	for key, n, rest := nextCounter(folder(filepath.Join(t.root, path)).read("cpu.stat", buffer[:])); len(key) > 0; key, n, rest = nextCounter(rest) {
		if string(key) == "usage_usec" {
			return micros(n), true
		}
	}
	return 0, false
}

// Made returns the time at which a cgroup was made, by its path. It is zero if there is no such cgroup.
func (t *Tree) Made(path string) time.Time {
	info, err := os.Stat(filepath.Join(t.controller("memory"), path))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Tasks returns the number of processes and threads of a container, 0 if it is not known.
func (t *Tree) Tasks(id string) uint64 {
	p := t.paths[id]
	if p == "" {
		return 0
	}
	return folder(t.controller("pids") + p).number("pids.current")
}

func (t *Tree) unifiedUsage(dir folder) (u Usage) {
	var buffer [kernelfile.Size]byte
	for key, n, rest := nextCounter(dir.read("cpu.stat", buffer[:])); len(key) > 0; key, n, rest = nextCounter(rest) {
		switch string(key) {
		case "user_usec":
			u.User = micros(n)
		case "system_usec":
			u.System = micros(n)
		case "throttled_usec":
			u.ThrottledTime = micros(n)
		default:
			u.countPeriods(key, n)
		}
	}
	u.Cache, u.MaxMemory = dir.counter("memory.stat", "file"), dir.number("memory.peak")
	for key, n, rest := nextCounter(dir.read("memory.events", buffer[:])); len(key) > 0; key, n, rest = nextCounter(rest) {
		switch string(key) {
		case "max":
			u.MemoryFailures = n
		case "oom_kill":
			u.OOMKills = n
		}
	}
	u.Tasks = dir.number("pids.current")
	for rest := dir.read("io.stat", buffer[:]); len(rest) > 0; {
		var line []byte
		line, rest = kernelfile.Line(rest)
		device, fields := kernelfile.Word(line)
		io := IO{Device: string(device)}
		for key, value, more := nextSetting(fields); len(key) > 0; key, value, more = nextSetting(more) {
			switch n := kernelfile.Number(value); string(key) {
			case "rbytes":
				io.ReadBytes = n
			case "wbytes":
				io.WriteBytes = n
			case "rios":
				io.Reads = n
			case "wios":
				io.Writes = n
			}
		}
		u.IO = append(u.IO, io)
	}
	u.CPUStall, u.MemoryStall, u.IOStall = dir.stall("cpu.pressure"), dir.stall("memory.pressure"), dir.stall("io.pressure")
	return u
}

// countPeriods reads the lines of cpu.stat that both versions have.
func (u *Usage) countPeriods(key []byte, n uint64) {
	switch string(key) {
	case "nr_periods":
		u.Periods = n
	case "nr_throttled":
		u.ThrottledPeriods = n
	}
}

// legacyUsage reads the controllers of cgroup version 1.
func (t *Tree) legacyUsage(p string) (u Usage) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all architectures of Go
	in := func(controller string) folder { return folder(t.controller(controller) + p) }
	var buffer [kernelfile.Size]byte
	for key, n, rest := nextCounter(in("cpuacct").read("cpuacct.stat", buffer[:])); len(key) > 0; key, n, rest = nextCounter(rest) {
		switch string(key) {
		case "user":
			u.User = time.Duration(n) * tick
		case "system":
			u.System = time.Duration(n) * tick
		}
	}
	for key, n, rest := nextCounter(in("cpu").read("cpu.stat", buffer[:])); len(key) > 0; key, n, rest = nextCounter(rest) {
		u.countPeriods(key, n)
		if string(key) == "throttled_time" {
			u.ThrottledTime = time.Duration(n)
		}
	}
	memory := in("memory")
	u.Cache, u.MaxMemory, u.MemoryFailures = memory.counter("memory.stat", "cache"), memory.number("memory.max_usage_in_bytes"), memory.number("memory.failcnt")
	u.OOMKills = memory.counter("memory.oom_control", "oom_kill")
	u.Tasks = in("pids").number("pids.current")
	blkio := in("blkio")
	u.addLegacyIO(blkio.read("blkio.throttle.io_service_bytes", buffer[:]), func(io *IO) (read, written *uint64) { return &io.ReadBytes, &io.WriteBytes })
	u.addLegacyIO(blkio.read("blkio.throttle.io_serviced", buffer[:]), func(io *IO) (read, written *uint64) { return &io.Reads, &io.Writes })
	return u
}

// addLegacyIO reads lines such as "8:0 Read 10". The last line is a total.
func (u *Usage) addLegacyIO(data []byte, values func(*IO) (read, written *uint64)) {
	for len(data) > 0 {
		var line []byte
		line, data = kernelfile.Line(data)
		device, rest := kernelfile.Word(line)
		operation, rest := kernelfile.Word(rest)
		value, _ := kernelfile.Word(rest)
		if len(value) == 0 {
			continue
		}
		read, written := values(u.device(device))
		switch string(operation) {
		case "Read":
			*read = kernelfile.Number(value)
		case "Write":
			*written = kernelfile.Number(value)
		}
	}
}

// device returns the traffic with a device. Lines about a device follow each other.
func (u *Usage) device(number []byte) *IO {
	for i := range u.IO {
		if u.IO[i].Device == string(number) {
			return &u.IO[i]
		}
	}
	u.IO = append(u.IO, IO{Device: string(number)})
	return &u.IO[len(u.IO)-1]
}
