// SPDX-License-Identifier: Apache-2.0

package oomwatch

import (
	"strconv"
	"strings"
)

// Victim is a process that the kernel has killed.
type Victim struct {
	Process string // the name of its command; the kernel cuts it off after 15 bytes
	PID     int
}

// Parse returns the victim that a record of /dev/kmsg reports. It returns false for all other
// records, for kills at the limit of a cgroup, and for records by programs.
func Parse(record string) (v Victim, ok bool) {
	head, text, _ := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n") // lines with further fields follow
	number, _, _ := strings.Cut(head, ",")
	priority, err := strconv.ParseUint(number, 10, 32)
	if err != nil || priority>>3 != 0 { // the facility 0 is the kernel's
		return v, false
	}
	// "Out of memory: Killed process 17 (stress) total-vm:…" since Linux 5.0, with a remark in
	// parentheses before the colon for kills of the process that needed the memory.
	cause, rest, _ := strings.Cut(text, ": Killed process ")
	pid, rest, _ := strings.Cut(rest, " (")
	end := strings.LastIndex(rest, ") total-vm:")
	if !strings.HasPrefix(cause, "Out of memory") || end < 0 {
		return v, false
	}
	n, err := strconv.Atoi(pid)
	return Victim{Process: rest[:end], PID: n}, err == nil
}
