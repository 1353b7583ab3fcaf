// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// processes returns every running witness of the test except hooks.
func (w *world) processes() map[process][]int {
	found := make(map[process][]int)
	for pid, args := range commandLines() {
		if args[0] != w.folder.Program() {
			continue
		}
		var p process
		hook := false
		for _, a := range args[1:] {
			name, value, _ := strings.Cut(a, "=")
			switch name {
			case "-pod":
				p.pod = value
			case "-generation":
				p.generation, _ = strconv.Atoi(value)
			case "-container":
				p.container = value
			case "-hook":
				hook = true
			}
		}
		if !hook {
			found[p] = append(found[p], pid)
		}
	}
	return found
}

// commandLines returns the command lines of all processes that have not ended.
func commandLines() map[int][]string {
	lines := make(map[int][]string)
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, err := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && len(text) > 0 {
			lines[pid] = strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		}
	}
	return lines
}

// pauses returns the sandbox processes.
func (w *world) pauses() (pids []int) {
	lines := commandLines()
	for _, pid := range w.engine.c.PIDs().Containers {
		if line := lines[pid]; len(line) == 2 && line[0] == "sleep" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// endProcesses kills the processes left by a failure.
func (w *world) endProcesses() {
	for _, pids := range w.processes() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// mountsBelow are the mount points below dir, the latest first.
func mountsBelow(t *testing.T, dir string) (points []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	slices.Reverse(points)
	return points
}
