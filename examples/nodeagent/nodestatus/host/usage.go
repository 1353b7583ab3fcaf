// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"cmp"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/kernelfile"
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
// or "self". A single interface counts as that of the default route.
func (m Machine) Interfaces(process string) []Interface {
	var buffer [kernelfile.Size]byte
	data, err := kernelfile.Append(buffer[:0], filepath.Join(cmp.Or(m.Root, "/"), "proc", process, "net/dev"))
	if err != nil {
		return nil
	}
	var all []Interface
	for len(data) > 0 {
		var line []byte
		line, data = kernelfile.Line(data)
		name, rest, _ := bytes.Cut(line, []byte{':'})
		name = bytes.TrimSpace(name)
		var f [16]uint64
		n := 0
		for word, rest := kernelfile.Word(rest); len(word) > 0; word, rest = kernelfile.Word(rest) {
			if n < len(f) {
				f[n] = kernelfile.Number(word)
			}
			n++
		}
		if n < len(f) || string(name) == "lo" || bytes.HasPrefix(name, []byte("veth")) {
			continue
		}
		all = append(all, Interface{
			Name:          string(name),
			ReceivedBytes: f[0], ReceivedPackets: f[1], ReceiveErrors: f[2], ReceiveDropped: f[3],
			SentBytes: f[8], SentPackets: f[9], SendErrors: f[10], SendDropped: f[11],
		})
	}
	if len(all) == 1 {
		all[0].IsDefault = true
		return all
	}
	route := m.defaultInterface(process)
	for i := range all {
		all[i].IsDefault = all[i].Name == route
	}
	return all
}

// defaultInterface returns the name of the interface with the first default route of IPv4.
func (m Machine) defaultInterface(process string) string {
	var buffer [kernelfile.Size]byte
	data, err := kernelfile.Append(buffer[:0], cmp.Or(m.Root, "/")+"/proc/"+process+"/net/route")
	if err != nil {
		return ""
	}
	const destination, mask, everywhere = 1, 7, "00000000"
	for len(data) > 0 {
		var line []byte
		line, data = kernelfile.Line(data)
		name, rest := kernelfile.Word(line)
		isDefault := false
		for column := destination; column <= mask; column++ {
			var word []byte
			word, rest = kernelfile.Word(rest)
			switch isZero := string(word) == everywhere; column {
			case destination:
				isDefault = isZero
			case mask:
				isDefault = isDefault && isZero
			}
		}
		if isDefault {
			return string(name)
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
