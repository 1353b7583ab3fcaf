// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
)

// Ref identifies a process since boot: a PID may be reused, but not a PID with the same start time.
type Ref struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in the kernel's unit; only compared for equality
}

// Info has the kernel's data about a process.
type Info struct {
	Ref
	PPID, PGID int
	SID        int // session; 0: unknown
	Zombie     bool
	Name       string // name of the program, at most 15 bytes; empty: unknown
}

// Alive reports whether the process runs. A zombie does not run.
func (r Ref) Alive() bool {
	if r.PID <= 0 {
		return false
	}
	info, err := Lookup(r.PID)
	return err == nil && info.Ref == r && !info.Zombie
}

// Reap reaps the process with this PID if it is an ended child with the program name name. A shim
// outlives agents, so no call waits for its end. The first call that notices the end reaps the
// shim.
func Reap(pid int, name string) {
	h, err := open(pid)
	if err != nil {
		return
	}
	defer h.Close()
	info, err := Lookup(pid)
	if err == nil && info.Zombie && info.PPID == os.Getpid() && (info.Name == name || info.Name == "") {
		h.Reap()
	}
}

// Descendants returns every process below pid, including ended processes.
func Descendants(all []Info, pid int) []Info {
	children := map[int][]Info{}
	for _, p := range all {
		children[p.PPID] = append(children[p.PPID], p)
	}
	var out []Info
	for todo := children[pid]; len(todo) > 0; {
		p := todo[0]
		todo = append(todo[1:], children[p.PID]...)
		out = append(out, p)
	}
	return out
}
