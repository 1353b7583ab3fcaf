// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Group returns the cgroup of a container, which need not exist.
func (p *Parent) Group(pod, container string) *record.Cgroup {
	g := &record.Cgroup{}
	for _, folder := range p.folders {
		g.Folders = append(g.Folders, filepath.Join(folder, pod, container))
	}
	return g
}

// Make makes the cgroup of a container and of its pod, unless they exist, and writes the limits.
func Make(g *record.Cgroup) error {
	for _, folder := range g.Folders {
		if err := mkdir(folder); err != nil {
			return err
		}
	}
	if err := limit(podOf(g.Folders), g.Pod); err != nil {
		return err
	}
	return limit(g.Folders, g.Own)
}

// mkdir makes the cgroup of a container and of its pod. The removal of the last other container of
// the pod may remove the pod's cgroup in between.
func mkdir(folder string) error {
	pod := filepath.Dir(folder)
	for {
		if err := os.Mkdir(pod, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := passAll(pod); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err := os.Mkdir(folder, 0o755)
		switch {
		case err == nil, errors.Is(err, fs.ErrExist):
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if _, err := os.Stat(filepath.Dir(pod)); err != nil {
			return err // the parent was removed
		}
	}
}

// passAll gives the children of a pod's cgroup the controllers that the pod's cgroup has.
func passAll(pod string) error {
	can, err := os.ReadFile(filepath.Join(pod, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // version 1
	}
	for _, c := range strings.Fields(string(can)) {
		err = errors.Join(err, pass(pod, c))
	}
	return err
}

// podOf returns the folders of the pod's cgroup.
func podOf(folders []string) []string {
	out := make([]string, len(folders))
	for i, f := range folders {
		out[i] = filepath.Dir(f)
	}
	return out
}

// cpuPeriod is the time in which a container may use its processor time, in microseconds. It is the
// kubelet's default. The kernel takes no quota below minQuota.
const (
	cpuPeriod = 100_000
	minQuota  = 1000
)

// The bounds of weights in version 1 and 2.
const (
	minShares, maxShares = 2, 1 << 18
	maxWeight            = 10_000
)

// Update sets the limits of a container's cgroup to exactly l.
func Update(g *record.Cgroup, l record.Limits) error {
	// A limit of memory may not exceed that of memory and swap, nor the other way round.
	if err := write(g.Folders, "memory.memsw.limit_in_bytes", "-1", "memory.swap.max", "max"); err != nil && !errors.Is(err, errNoFile) {
		return err
	}
	var errs []error
	for _, none := range []struct {
		missing bool
		values  []string
	}{
		{l.Memory == 0, []string{"memory.limit_in_bytes", "-1", "memory.max", "max"}},
		{l.CPU == 0, []string{"cpu.cfs_quota_us", "-1", "cpu.max", fmt.Sprint("max ", cpuPeriod)}},
		{l.Weight == 0, []string{"cpu.shares", strconv.Itoa(minShares), "cpu.weight", "1"}},
	} {
		if !none.missing {
			continue
		}
		if err := write(g.Folders, none.values...); err != nil && !errors.Is(err, errNoFile) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, limit(g.Folders, l))...)
}

// LimitsOf returns the limits of memory and cpu that a container's cgroup has.
func LimitsOf(g *record.Cgroup) (l record.Limits) {
	quota, period, v2 := strings.Cut(strings.TrimSpace(read(g.Folders, "cpu.max")), " ")
	if !v2 {
		quota, period = read(g.Folders, "cpu.cfs_quota_us"), read(g.Folders, "cpu.cfs_period_us")
	}
	if q, p := number(quota), number(period); p > 0 {
		l.CPU = int64(q * 1000 / p)
	}
	const unlimited = 1 << 62 // version 1 rounds a number to pages
	if memory := number(read(g.Folders, "memory.max", "memory.limit_in_bytes")); memory < unlimited {
		l.Memory = int64(memory)
	}
	return l
}

// number reads a number of the kernel. "max" and negative numbers are 0, as the lack of a file.
func number(text string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// limit writes the limits of a cgroup. Swap is not used by a cgroup with a limit of memory, as on a
// node of the kubelet with NoSwap.
func limit(folders []string, l record.Limits) error {
	var errs []error
	set := func(asked bool, values ...string) {
		if asked {
			errs = append(errs, write(folders, values...))
		}
	}
	memory := strconv.FormatInt(l.Memory, 10)
	set(l.Memory > 0, "memory.limit_in_bytes", memory, "memory.max", memory)
	if l.Memory > 0 { // kernels without swap accounting have neither file
		_ = write(folders, "memory.memsw.limit_in_bytes", memory, "memory.swap.max", "0")
	}
	quota := max(l.CPU*cpuPeriod/1000, minQuota)
	set(l.CPU > 0, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod), "cpu.max", fmt.Sprint(quota, cpuPeriod))
	set(l.CPU > 0, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10), "cpu.max", fmt.Sprint(quota, cpuPeriod))
	shares := min(max(l.Weight*1024/1000, minShares), maxShares)
	weight := 1 + (shares-minShares)*(maxWeight-1)/(maxShares-minShares) // KEP-2254
	set(l.Weight > 0, "cpu.shares", strconv.FormatInt(shares, 10), "cpu.weight", strconv.FormatInt(weight, 10))
	pids := strconv.FormatInt(l.PIDs, 10)
	set(l.PIDs > 0, "pids.max", pids)
	return errors.Join(errs...)
}

// errNoFile means that the kernel has no such limit.
var errNoFile = errors.New("no such file in the cgroup")

// write writes the first of the files that exists. The files and their values alternate.
func write(folders []string, values ...string) error {
	for _, folder := range folders {
		for i := 0; i < len(values); i += 2 {
			f, err := os.OpenFile(filepath.Join(folder, values[i]), os.O_WRONLY, 0)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				_, err = f.WriteString(values[i+1])
				err = errors.Join(err, f.Close())
			}
			return err
		}
	}
	return fmt.Errorf("%s: %w", values[0], errNoFile)
}

// read returns the contents of the first of the files that exists, "" without such a file.
func read(folders []string, names ...string) string {
	for _, folder := range folders {
		for _, name := range names {
			if raw, err := os.ReadFile(filepath.Join(folder, name)); err == nil {
				return string(raw)
			}
		}
	}
	return ""
}

// field returns the value of a line "name value", 0 without such a line.
func field(text, name string) uint64 {
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			return number(value)
		}
	}
	return 0
}

// OOMKilled reports whether the kernel has killed a process of the cgroup for lack of memory.
func OOMKilled(g *record.Cgroup) bool {
	return field(read(g.Folders, "memory.events", "memory.oom_control"), "oom_kill") > 0
}

// Usage is the present and past use of resources by the processes of a cgroup. A value is 0 if the
// kernel does not count it.
type Usage struct {
	CPU                time.Duration
	Memory, WorkingSet uint64 // bytes
	RSS, Processes     uint64
}

// UsageOf returns the usage of a cgroup.
func UsageOf(g *record.Cgroup) (u Usage) {
	u.CPU = time.Duration(number(read(g.Folders, "cpuacct.usage")))
	if u.CPU == 0 {
		u.CPU = time.Duration(field(read(g.Folders, "cpu.stat"), "usage_usec")) * time.Microsecond
	}
	u.Memory = number(read(g.Folders, "memory.current", "memory.usage_in_bytes"))
	stat := read(g.Folders, "memory.stat")
	u.RSS = field(stat, "anon") + field(stat, "total_rss")
	idle := field(stat, "total_inactive_file")
	if idle == 0 {
		idle = field(stat, "inactive_file")
	}
	u.WorkingSet = u.Memory - min(u.Memory, idle)
	u.Processes = number(read(g.Folders, "pids.current"))
	return u
}

// Remove kills the processes of a cgroup and removes the cgroup, and that of the pod with its last
// container.
func Remove(ctx context.Context, g *record.Cgroup) error {
	for _, folder := range g.Folders {
		for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
			err := os.Remove(folder)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !errors.Is(err, unix.EBUSY) {
				return err
			}
			if err := kill(folder); err != nil {
				return err
			}
			if retry.Sleep(ctx, wait) != nil {
				return fmt.Errorf("%s has processes that do not end: %w", folder, context.Cause(ctx))
			}
		}
		// Another container of the pod keeps the pod's cgroup.
		if err := os.Remove(filepath.Dir(folder)); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// kill kills the processes of a cgroup. A process is signalled only if it is in the cgroup while a
// pidfd holds its number.
func kill(folder string) error {
	if err := os.WriteFile(filepath.Join(folder, "cgroup.kill"), []byte("1"), 0); err == nil {
		return nil
	}
	pids, err := processes(folder)
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		if again, err := processes(folder); err == nil && slices.Contains(again, pid) {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // Remove tries again
		}
		_ = unix.Close(fd)
	}
	return err
}

func processes(folder string) (pids []int, err error) {
	raw, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for word := range strings.FieldsSeq(string(raw)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
