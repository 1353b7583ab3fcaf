// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
)

// Ref names one process since boot: a PID may be used again, a PID with its
// start time is not.
type Ref struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in the kernel's unit; only equality means something
}

// Info is one process as the kernel shows it.
type Info struct {
	Ref
	PPID, PGID int
	SID        int // session; 0 where unknown
	Zombie     bool
	Name       string // the program's, of 15 bytes at most; empty where unknown
}

// Alive reports whether the process runs: a zombie does not.
func (r Ref) Alive() bool {
	if r.PID <= 0 {
		return false
	}
	info, err := Lookup(r.PID)
	return err == nil && info.Ref == r && !info.Zombie
}

// Reap collects the process with this PID if it is a dead child of this one by the
// name of name. A shim outlives agents, so no call keeps a handle to wait with;
// whichever call notices its death reaps it.
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

// Descendants returns every process below pid, dead or alive.
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
