// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The node of eviction.sh.
const (
	podsMemory = 1 << 30 // of all pods, in bytes
	nodeFiles  = "size=400m,nr_inodes=20000"
	podsPIDs   = 3000 // more processes than the machine has are too many
)

// pressureOf returns the fields of the configuration that decide about evictions. By default the
// thresholds of the disk are low, because a machine of a developer may be nearly full.
func pressureOf(o options) (string, error) {
	switch {
	case o.node:
		return `evictionHard: {memory.available: 250Mi, nodefs.available: 10%, nodefs.inodesFree: 5%}
evictionMinimumReclaim: {nodefs.available: 5%, nodefs.inodesFree: 5%}
evictionPressureTransitionPeriod: 30s
volumeStatsAggPeriod: 10s
`, nil
	case o.eviction:
		var machine unix.Sysinfo_t
		if err := unix.Sysinfo(&machine); err != nil {
			return "", fmt.Errorf("sysinfo: %w", err)
		}
		pids, err := freePIDs()
		return fmt.Sprintf(`evictionHard: {memory.available: 300Mi, nodefs.available: 30%%, nodefs.inodesFree: 50%%, imagefs.available: 1%%, pid.available: "%d"}
evictionPressureTransitionPeriod: 30s
volumeStatsAggPeriod: 10s
systemReserved: {memory: "%d"}
`, pids-podsPIDs, uint64(machine.Totalram)*uint64(machine.Unit)-podsMemory), err
	}
	return "evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}\n", nil
}

// freePIDs returns how many more tasks the machine can have.
func freePIDs() (int, error) {
	var numbers [3]int
	for i, file := range []string{"kernel/pid_max", "kernel/threads-max", ""} {
		text, err := os.ReadFile("/proc/sys/" + file)
		if file == "" { // 0.61 0.48 0.39 2/380 12345
			text, err = os.ReadFile("/proc/loadavg")
			_, tasks, _ := strings.Cut(string(text), "/")
			text = []byte(strings.SplitN(tasks, " ", 2)[0])
		}
		if err != nil {
			return 0, err
		}
		if numbers[i], err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return 0, err
		}
	}
	return min(numbers[0], numbers[1]) - numbers[2], nil
}
