// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strconv"
	"strings"
	"time"
)

// Usage is the usage of a machine's resources since its boot. A value that cannot be read is zero.
type Usage struct {
	Boot   time.Time
	CPU    time.Duration // not idle, summed over all cores; in steps of 10 ms
	Memory MemoryUsage
	// SwapUsed and SwapFree are in bytes.
	SwapUsed, SwapFree uint64
	Interfaces         []Interface // in the order of the kernel
}

// MemoryUsage is used memory in bytes.
type MemoryUsage struct {
	// Used is the memory that is not free. WorkingSet is Used without inactive pages of files and
	// without caches of the kernel that it can reclaim. Available is the rest of the machine's
	// memory. Used and WorkingSet include other memory of the kernel, which the kubelet leaves out.
	Used, WorkingSet, Available uint64
	Anonymous                   uint64
	PageFaults, MajorPageFaults uint64 // counters
}

// Interface is the traffic of a network interface since it was made.
type Interface struct {
	Name                         string
	ReceivedBytes, SentBytes     uint64
	ReceivedPackets, SentPackets uint64
	ReceiveErrors, SendErrors    uint64 // packets
	ReceiveDropped, SendDropped  uint64 // packets
	IsDefault                    bool   // the interface has the default route
}

// Usage reads the machine's usage from /proc. The interfaces are those of this process's network
// namespace, without loopback and without ends of pods' links.
func (m Machine) Usage() Usage {
	u := Usage{Memory: m.memoryUsage()}
	for key, value := range words(m.read("proc/stat")) {
		switch key {
		case "btime":
			if seconds := number(value); seconds > 0 {
				u.Boot = time.Unix(int64(seconds), 0)
			}
		case "cpu":
			u.CPU = busy(strings.Fields(value))
		}
	}
	swap := m.kilobytes("SwapTotal", "SwapFree")
	u.SwapUsed, u.SwapFree = less(swap[0], swap[1]), swap[1]
	u.Interfaces = m.Interfaces("self")
	return u
}

// busy sums the fields user, nice, system, irq and softirq of a line of /proc/stat, see proc(5).
func busy(fields []string) time.Duration {
	if len(fields) < 7 {
		return 0
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all architectures of Go
	ticks := uint64(0)
	for _, i := range []int{0, 1, 2, 5, 6} {
		ticks += number(fields[i])
	}
	return time.Duration(ticks) * tick
}

func (m Machine) memoryUsage() MemoryUsage {
	k := m.kilobytes("MemTotal", "MemFree", "Inactive(file)", "AnonPages", "SReclaimable")
	u := MemoryUsage{Used: less(k[0], k[1]), Anonymous: k[3]}
	u.WorkingSet = less(u.Used, k[2]+k[4])
	u.Available = less(k[0], u.WorkingSet)
	for key, value := range words(m.read("proc/vmstat")) {
		switch key {
		case "pgfault":
			u.PageFaults = number(value)
		case "pgmajfault":
			u.MajorPageFaults = number(value)
		}
	}
	return u
}

// kilobytes returns the values of /proc/meminfo under the names, in bytes.
func (m Machine) kilobytes(names ...string) []uint64 {
	out := make([]uint64, len(names))
	for key, value := range pairs(m.read("proc/meminfo"), ":") {
		for i, name := range names {
			if key == name {
				out[i] = number(strings.TrimSuffix(value, " kB")) << 10
			}
		}
	}
	return out
}

// Interfaces returns the network interfaces of a process's network namespace. The process is a PID
// or "self".
func (m Machine) Interfaces(process string) []Interface {
	route := m.defaultInterface(process)
	var all []Interface
	for name, value := range pairs(m.read("proc/"+process+"/net/dev"), ":") {
		f := strings.Fields(value)
		if len(f) < 16 || name == "lo" || strings.HasPrefix(name, "veth") {
			continue
		}
		all = append(all, Interface{
			Name: name, IsDefault: name == route,
			ReceivedBytes: number(f[0]), ReceivedPackets: number(f[1]), ReceiveErrors: number(f[2]), ReceiveDropped: number(f[3]),
			SentBytes: number(f[8]), SentPackets: number(f[9]), SendErrors: number(f[10]), SendDropped: number(f[11]),
		})
	}
	return all
}

// defaultInterface returns the name of the interface with the first default route of IPv4.
func (m Machine) defaultInterface(process string) string {
	for name, value := range words(m.read("proc/" + process + "/net/route")) {
		if f := strings.Fields(value); len(f) > 6 && f[0] == "00000000" && f[6] == "00000000" { // destination and mask
			return name
		}
	}
	return ""
}

// words yields the first word and the rest of each line.
func words(data []byte) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(strings.ReplaceAll(line, "\t", " "))
			key, value, ok := strings.Cut(line, " ")
			if ok && !yield(key, strings.TrimSpace(value)) {
				return
			}
		}
	}
}

func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// less returns a-b, or 0 if b is larger.
func less(a, b uint64) uint64 { return a - min(a, b) }
