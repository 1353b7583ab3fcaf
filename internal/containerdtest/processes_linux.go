// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// PIDs are the processes of an instance at the time of the call, in ascending order.
type PIDs struct {
	Containerd []int // and, for a moment, ctr, runc and network plugins
	Shims      []int
	Containers []int // everything inside containers and sandboxes
}

// PIDs finds the processes of the instance, whether or not containerd runs.
func (i *Instance) PIDs() PIDs { return findPIDs(i.layout) }

func (p PIDs) all() []int { return slices.Concat(p.Containerd, p.Shims, p.Containers) }

// findPIDs goes through /proc. A process that ends during the search is left out.
func findPIDs(l layout) PIDs {
	var p PIDs
	ids := containerIDs(l)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || isZombie(dir) {
			continue
		}
		switch classify(l, ids, dir) {
		case inContainer:
			p.Containers = append(p.Containers, pid)
		case shim:
			p.Shims = append(p.Shims, pid)
		case daemon:
			p.Containerd = append(p.Containerd, pid)
		}
	}
	slices.Sort(p.Containers)
	slices.Sort(p.Shims)
	slices.Sort(p.Containerd)
	return p
}

type kind int

const (
	foreign kind = iota
	inContainer
	shim
	daemon
)

// classify returns the kind of the process with the folder dir in /proc. A command line with a
// folder of the instance is not sufficient: the agent under test names the socket, too.
func classify(l layout, ids []string, dir string) kind {
	cgroups := readFile(dir, "cgroup")
	for path := range strings.FieldsFuncSeq(cgroups, func(r rune) bool { return r == '/' || r == '\n' || r == ':' }) {
		if _, found := slices.BinarySearch(ids, path); found {
			return inContainer
		}
	}
	args := strings.Split(readFile(dir, "cmdline"), "\x00")
	ours := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, l.dir+"/") })
	switch name := filepath.Base(args[0]); {
	case ours && strings.HasPrefix(name, "containerd-shim"):
		return shim
	case ours && slices.Contains([]string{"containerd", "ctr", "runc"}, name):
		return daemon
	case strings.Contains("\x00"+readFile(dir, "environ"), "\x00CNI_NETNS="+l.dir+"/"):
		return daemon
	}
	return foreign
}

// isZombie reports whether the process has ended without being waited for.
func isZombie(dir string) bool {
	stat := readFile(dir, "stat")
	_, rest, _ := strings.Cut(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

func readFile(dir, name string) string {
	text, _ := os.ReadFile(filepath.Join(dir, name))
	return string(text)
}

// containerIDs returns, sorted, the IDs of all containers and sandboxes with a present or past
// process.
func containerIDs(l layout) []string {
	entries, _ := os.ReadDir(l.bundles())
	var ids []string
	for _, e := range entries {
		if e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids)
	return ids
}
