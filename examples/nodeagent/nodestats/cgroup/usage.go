// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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
	if _, err := os.Stat(filepath.Join(t.controller("memory"), p)); err != nil {
		return u, false
	}
	if t.unified {
		return t.unifiedUsage(folder(filepath.Join(t.root, p))), true
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
	if dir.text(usage) == "" {
		return m, false
	}
	values := dir.values("memory.stat")
	m.Limit, m.Usage = limited(dir.number(limit)), dir.number(usage)
	m.WorkingSet = m.Usage - min(m.Usage, values[prefix+"inactive_file"])
	m.RSS, m.PageFaults, m.MajorPageFaults = values[prefix+rss], values[prefix+"pgfault"], values[prefix+"pgmajfault"]
	if t.unified {
		m.Swap = dir.number("memory.swap.current")
	} else {
		m.Swap = values["total_swap"]
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
	if t.unified {
		n, ok := folder(filepath.Join(t.root, path)).values("cpu.stat")["usage_usec"]
		return micros(n), ok
	}
	dir := folder(filepath.Join(t.controller("cpuacct"), path))
	return time.Duration(dir.number("cpuacct.usage")), dir.text("cpuacct.usage") != ""
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
	return folder(filepath.Join(t.controller("pids"), p)).number("pids.current")
}

func (t *Tree) unifiedUsage(dir folder) (u Usage) {
	cpu := dir.values("cpu.stat")
	u.User, u.System = micros(cpu["user_usec"]), micros(cpu["system_usec"])
	u.Periods, u.ThrottledPeriods, u.ThrottledTime = cpu["nr_periods"], cpu["nr_throttled"], micros(cpu["throttled_usec"])
	u.Cache, u.MaxMemory = dir.values("memory.stat")["file"], dir.number("memory.peak")
	events := dir.values("memory.events")
	u.MemoryFailures, u.OOMKills = events["max"], events["oom_kill"]
	u.Tasks = dir.number("pids.current")
	for line := range strings.Lines(dir.text("io.stat")) {
		device, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		io := IO{Device: device}
		for _, field := range strings.Fields(rest) {
			key, value, _ := strings.Cut(field, "=")
			switch n := parse(value); key {
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

// legacyUsage reads the controllers of cgroup version 1.
func (t *Tree) legacyUsage(p string) (u Usage) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all architectures of Go
	in := func(controller string) folder { return folder(filepath.Join(t.controller(controller), p)) }
	ticks := in("cpuacct").values("cpuacct.stat")
	u.User, u.System = time.Duration(ticks["user"])*tick, time.Duration(ticks["system"])*tick
	cpu := in("cpu").values("cpu.stat")
	u.Periods, u.ThrottledPeriods, u.ThrottledTime = cpu["nr_periods"], cpu["nr_throttled"], time.Duration(cpu["throttled_time"])
	memory := in("memory")
	u.Cache, u.MaxMemory, u.MemoryFailures = memory.values("memory.stat")["cache"], memory.number("memory.max_usage_in_bytes"), memory.number("memory.failcnt")
	u.OOMKills = memory.values("memory.oom_control")["oom_kill"]
	u.Tasks = in("pids").number("pids.current")
	u.IO = legacyIO(in("blkio"))
	return u
}

func legacyIO(dir folder) (all []IO) {
	place := map[string]int{}
	add := func(file string, set func(io *IO, operation string, n uint64)) {
		for line := range strings.Lines(dir.text(file)) {
			f := strings.Fields(line)
			if len(f) != 3 { // the last line is a total
				continue
			}
			i, known := place[f[0]]
			if !known {
				i = len(all)
				place[f[0]] = i
				all = append(all, IO{Device: f[0]})
			}
			set(&all[i], f[1], parse(f[2]))
		}
	}
	add("blkio.throttle.io_service_bytes", func(io *IO, operation string, n uint64) {
		switch operation {
		case "Read":
			io.ReadBytes = n
		case "Write":
			io.WriteBytes = n
		}
	})
	add("blkio.throttle.io_serviced", func(io *IO, operation string, n uint64) {
		switch operation {
		case "Read":
			io.Reads = n
		case "Write":
			io.Writes = n
		}
	})
	return all
}

// folder is the folder of a cgroup. Files that cannot be read count as empty.
type folder string

func (f folder) text(name string) string {
	raw, err := os.ReadFile(filepath.Join(string(f), name))
	if err != nil {
		return ""
	}
	return string(raw)
}

func (f folder) number(name string) uint64 { return parse(strings.TrimSpace(f.text(name))) }

// values reads lines of a name and a number.
func (f folder) values(name string) map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(f.text(name)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			out[key] = parse(value)
		}
	}
	return out
}

// stall reads pressure stall information: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0".
func (f folder) stall(name string) (s Stall) {
	for line := range strings.Lines(f.text(name)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		values := map[string]string{}
		for _, field := range strings.Fields(rest) {
			key, value, _ := strings.Cut(field, "=")
			values[key] = value
		}
		if values["total"] == "" {
			continue
		}
		s.Known = true
		var share Averages
		for i, key := range []string{"avg10", "avg60", "avg300"} {
			share[i], _ = strconv.ParseFloat(values[key], 64) // 0 if the kernel does not tell
		}
		switch total := micros(parse(values["total"])); kind {
		case "some":
			s.Some, s.SomeShare = total, share
		case "full":
			s.All, s.AllShare = total, share
		}
	}
	return s
}

func micros(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }

func parse(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
