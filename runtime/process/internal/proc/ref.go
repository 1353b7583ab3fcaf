// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
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
}

// Alive reports whether the process runs: a zombie does not.
func (r Ref) Alive() bool {
	if r.PID <= 0 {
		return false
	}
	info, err := Lookup(r.PID)
	return err == nil && info.Ref == r && !info.Zombie
}

// Reap collects the process if it is a dead child of this one. A shim outlives
// agents, so nobody keeps a handle to wait with; whoever notices its death
// reaps it.
func (r Ref) Reap() {
	info, err := Lookup(r.PID)
	if r.PID > 0 && err == nil && info.Ref == r && info.Zombie && info.PPID == os.Getpid() {
		// It is a zombie and ours, so its PID cannot be used again before this.
		_, _ = unix.Wait4(r.PID, nil, unix.WNOHANG, nil)
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

// KillAll kills every process that is mine, again and again until none is left,
// because what is killed may just have had children. It gives up when ctx ends
// or when what is left may not be killed by this user.
func KillAll(ctx context.Context, mine func(Info) bool) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		all, err := All()
		if err != nil {
			return err
		}
		left, refused, lastErr := 0, 0, error(nil)
		for _, p := range all {
			if p.PID == os.Getpid() || !mine(p) {
				continue
			}
			if p.Zombie {
				p.Reap()
				continue
			}
			left++
			if err := p.Signal(unix.SIGKILL); err != nil && err != os.ErrProcessDone {
				refused++
				lastErr = err
			}
		}
		switch {
		case left == 0:
			return nil
		case left == refused:
			return fmt.Errorf("%d processes cannot be killed: %w", left, lastErr)
		}
		if !Pause(ctx, wait) {
			return fmt.Errorf("%d processes left: %w", left, ctx.Err())
		}
	}
}

// Pause waits for d, and reports whether it did: false if ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
