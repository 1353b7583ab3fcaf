// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// node is what configurations depend on and stays as it is while the machine
// runs.
type node struct {
	memory    int64 // bytes
	swap      int64 // bytes; only if there is a policy for it
	policy    SwapPolicy
	qos       *MemoryQoS
	cgroup2   bool     // the unified hierarchy is the only one
	hugePages []string // sizes in the CRI's words, as in "2MB"
}

// lookAtNode reads what the options do not say. A machine that does not tell
// its memory is an error; the rest counts as not there.
func lookAtNode(opts Options) (node, error) {
	n := node{memory: opts.MemoryCapacity, swap: opts.SwapCapacity, policy: opts.Swap, qos: opts.MemoryQoS}
	if err := n.readMeminfo(opts); err != nil {
		return n, err
	}
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	n.cgroup2 = err == nil
	switch {
	case n.cgroup2:
	case n.qos != nil:
		return n, errors.New("Options.MemoryQoS: the node has no cgroup v2")
	case n.policy != SwapOfRuntime:
		return n, errors.New("Options.Swap: the node has no cgroup v2")
	}
	entries, _ := os.ReadDir("/sys/kernel/mm/hugepages")
	for _, e := range entries {
		if size, ok := hugePageSize(e.Name()); ok {
			n.hugePages = append(n.hugePages, size)
		}
	}
	slices.Sort(n.hugePages)
	return n, nil
}

// readMeminfo looks for what opts do not say.
func (n *node) readMeminfo(opts Options) error {
	wantSwap := n.swap == 0 && n.policy == LimitedSwap
	if n.memory != 0 && !wantSwap {
		return nil
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fmt.Errorf("find the memory of the machine, which Options.MemoryCapacity and SwapCapacity do not say: %w", err)
	}
	if n.memory == 0 {
		if n.memory, err = parseMeminfo(string(text), "MemTotal"); err == nil && n.memory == 0 {
			err = errors.New("MemTotal is 0")
		}
	}
	if err == nil && wantSwap {
		n.swap, err = parseMeminfo(string(text), "SwapTotal")
	}
	if err != nil {
		return fmt.Errorf("/proc/meminfo: %w", err)
	}
	return nil
}

// parseMeminfo returns one of the values in bytes.
func parseMeminfo(meminfo, key string) (int64, error) {
	for line := range strings.Lines(meminfo) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != key+":" || f[2] != "kB" {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n >= 0 && n < 1<<50 {
			return n << 10, nil
		}
	}
	return 0, fmt.Errorf("has no %s", key)
}

// hugePageSize turns the kernel's "hugepages-2048kB" into the CRI's "2MB".
func hugePageSize(dir string) (string, bool) {
	digits, ok := strings.CutPrefix(dir, "hugepages-")
	if !ok {
		return "", false
	}
	kb, err := strconv.ParseInt(strings.TrimSuffix(digits, "kB"), 10, 64)
	if err != nil || kb <= 0 || kb > 1<<50 {
		return "", false
	}
	return pageSizeName(kb << 10), true
}

// pageSizeName writes a number of bytes in the largest unit that divides it.
func pageSizeName(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i := 0
	for bytes%1024 == 0 && i < len(units)-1 {
		bytes /= 1024
		i++
	}
	return strconv.FormatInt(bytes, 10) + units[i]
}
