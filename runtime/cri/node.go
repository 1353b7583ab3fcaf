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
	memory    int64    // bytes
	cgroup2   bool     // the unified hierarchy is the only one
	hugePages []string // sizes in the CRI's words, as in "2MB"
}

// lookAtNode reads what the options do not say. A machine that does not tell
// its memory is an error; the rest counts as not there.
func lookAtNode(opts Options) (node, error) {
	n := node{memory: opts.MemoryCapacity}
	if n.memory == 0 {
		text, err := os.ReadFile("/proc/meminfo")
		if err != nil {
			return n, fmt.Errorf("find the memory of the machine, which Options.MemoryCapacity does not say: %w", err)
		}
		if n.memory, err = parseMemTotal(string(text)); err != nil {
			return n, fmt.Errorf("/proc/meminfo: %w", err)
		}
	}
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	n.cgroup2 = err == nil
	entries, _ := os.ReadDir("/sys/kernel/mm/hugepages")
	for _, e := range entries {
		if size, ok := hugePageSize(e.Name()); ok {
			n.hugePages = append(n.hugePages, size)
		}
	}
	slices.Sort(n.hugePages)
	return n, nil
}

// parseMemTotal returns MemTotal in bytes.
func parseMemTotal(meminfo string) (int64, error) {
	for line := range strings.Lines(meminfo) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "MemTotal:" || f[2] != "kB" {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n > 0 && n < 1<<50 {
			return n << 10, nil
		}
	}
	return 0, errors.New("has no MemTotal")
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
