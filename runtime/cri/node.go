// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// node holds facts about the machine, constant while the machine runs.
type node struct {
	memory    int64 // bytes
	swap      int64 // bytes; read for LimitedSwap only
	policy    SwapPolicy
	qos       *MemoryQoS
	cgroup2   bool     // only the unified hierarchy is mounted
	hugePages []string // sizes in the CRI's words, as in "2MB"
}

// lookAtNode reads the facts about the machine. An unreadable memory size is an error; other
// unreadable facts count as absent.
func lookAtNode(opts Options) (node, error) {
	n := node{policy: opts.Swap, qos: opts.MemoryQoS}
	if err := n.readMeminfo(); err != nil {
		return n, err
	}
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	n.cgroup2 = err == nil
	switch {
	case n.cgroup2:
	case n.qos != nil:
		return n, errors.New("Options.MemoryQoS (memoryThrottlingFactor, memoryReservationPolicy): the node has no cgroup v2")
	case n.policy != SwapOfRuntime:
		return n, errors.New("Options.Swap (swapBehavior): the node has no cgroup v2")
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

// readMeminfo reads the sizes of the node's memory and, if LimitedSwap needs it, swap.
func (n *node) readMeminfo() error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fmt.Errorf("find the memory of the machine: %w", err)
	}
	if n.memory, err = parseMeminfo(string(text), "MemTotal"); err == nil && n.memory == 0 {
		err = errors.New("MemTotal is 0")
	}
	if err == nil && n.policy == LimitedSwap {
		n.swap, err = parseMeminfo(string(text), "SwapTotal")
	}
	if err != nil {
		return fmt.Errorf("/proc/meminfo: %w", err)
	}
	return nil
}

// parseMeminfo returns the value of key in bytes.
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
	return podresources.PageSizeName(kb << 10), true
}
