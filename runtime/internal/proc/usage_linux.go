// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"
)

// Usage is the use of resources by a set of processes.
type Usage struct {
	// CPU is the time of the processes, and of their ended children that were waited for.
	CPU time.Duration
	// RSS is the sum over the processes in bytes. Memory that processes share counts for each.
	RSS                         uint64
	PageFaults, MajorPageFaults uint64 // counters like CPU
	Processes                   int
}

func (u *Usage) add(v Usage) {
	u.CPU += v.CPU
	u.RSS += v.RSS
	u.PageFaults += v.PageFaults
	u.MajorPageFaults += v.MajorPageFaults
	u.Processes += v.Processes
}

// UsageBelow returns, for each of the processes, the usage of all processes below it, including
// ended children of the process itself. A process that ends during the call may be missing, or may
// count twice.
func UsageBelow(pids []int) (map[int]Usage, error) {
	all, err := usages()
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for pid, p := range all {
		children[p.parent] = append(children[p.parent], pid)
	}
	out := make(map[int]Usage, len(pids))
	for _, root := range pids {
		sum := all[root].ended
		for todo := children[root]; len(todo) > 0; {
			pid := todo[len(todo)-1]
			todo = append(todo[:len(todo)-1:len(todo)-1], children[pid]...)
			sum.add(all[pid].own)
			sum.add(all[pid].ended)
		}
		out[root] = sum
	}
	return out, nil
}

// processUsage is the usage of one process, and of its ended children.
type processUsage struct {
	parent     int
	own, ended Usage
}

// usages returns the usage of every process; by PID.
func usages() (map[int]processUsage, error) {
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	out := make(map[int]processUsage, len(pids))
	for _, pid := range pids {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue // the process has ended
		}
		if p, err := parseUsage(raw); err == nil {
			out[pid] = p
		}
	}
	return out, nil
}

// tick is the unit of times in /proc/<pid>/stat: USER_HZ is 100 on all architectures of Go.
const tick = 10 * time.Millisecond

// parseUsage reads the usage in /proc/<pid>/stat, see proc(5).
func parseUsage(raw []byte) (p processUsage, err error) {
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:]) // the first is the third of the file
	if len(fields) < 22 {
		return p, errors.New("stat: too few fields")
	}
	number := func(i int) uint64 { // of proc(5)
		n, parseErr := strconv.ParseInt(string(fields[i-3]), 10, 64)
		err = errors.Join(err, parseErr)
		return uint64(max(n, 0))
	}
	p.parent = int(number(4))
	p.own = Usage{
		CPU: time.Duration(number(14)+number(15)) * tick, RSS: number(24) * uint64(os.Getpagesize()),
		PageFaults: number(10), MajorPageFaults: number(12), Processes: 1,
	}
	p.ended = Usage{CPU: time.Duration(number(16)+number(17)) * tick, PageFaults: number(11), MajorPageFaults: number(13)}
	return p, err
}
