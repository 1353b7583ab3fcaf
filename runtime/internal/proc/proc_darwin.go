// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/retry"
)

// pollInterval is how late the end of a process may be noticed: there is no
// pidfd here.
const pollInterval = 20 * time.Millisecond

// BootID names this boot of the machine.
func BootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// Lookup returns what the kernel says of a PID: os.ErrProcessDone if nothing.
func Lookup(pid int) (Info, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return Info{}, os.ErrProcessDone
	}
	return infoOf(k), nil
}

func infoOf(k *unix.KinfoProc) Info {
	const zombie = 5 // SZOMB
	t := k.Proc.P_starttime
	return Info{
		Ref:  Ref{PID: int(k.Proc.P_pid), Start: uint64(t.Sec)*1_000_000 + uint64(t.Usec)},
		PPID: int(k.Eproc.Ppid), PGID: int(k.Eproc.Pgid),
		Zombie: k.Proc.P_stat == zombie,
	}
}

// All returns every process there is.
func All() ([]Info, error) {
	ks, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(ks))
	for i := range ks {
		out = append(out, infoOf(&ks[i]))
	}
	return out, nil
}

// HasEnv is not available here: false.
func HasEnv(int, string) bool { return false }

// Match recognizes a process by the arguments that it was started with, where they
// can be seen: not here.
type Match func(args []string) bool

// Is reports whether the process runs.
func Is(r Ref, _ Match) bool { return r.Alive() }

// HoldAt returns a handle of the process: os.ErrProcessDone if it is gone.
func HoldAt(hint Ref, _ Match) (*Handle, error) { return hint.Open() }

// Hold is HoldAt: processes cannot be recognized here.
func Hold(hint Ref, _ Match) (*Handle, error) { return hint.Open() }

// KillMarked kills the process group of main, if main still leads it: marks cannot be
// seen here.
func KillMarked(_ context.Context, _ string, main Ref) error {
	if info, err := Lookup(main.PID); main.PID <= 0 || err != nil || info.Ref != main {
		return nil
	}
	err := unix.Kill(-main.PID, unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Marked is not available here: no environment can be seen.
func Marked(string) (map[int]string, error) { return nil, nil }

// Place is where a process is.
type Place struct {
	Args []string
	Dir  string
}

// Places is not available here: no arguments can be seen.
func Places(Match) (map[int]Place, error) { return nil, nil }

func open(pid int) (*Handle, error) {
	info, err := Lookup(pid)
	return &Handle{info.Ref}, err
}

// PID returns the number of the process.
func (h *Handle) PID() int { return h.ref.PID }

// Memory is not available here: fs.ErrNotExist.
func (h *Handle) Memory(string) ([]byte, error) { return nil, fs.ErrNotExist }

// Reap collects the process if it has ended and is a child of this one.
func (h *Handle) Reap() {
	if info, err := Lookup(h.ref.PID); err == nil && info.Ref == h.ref && info.Zombie && info.PPID == os.Getpid() {
		_, _ = unix.Wait4(h.ref.PID, nil, unix.WNOHANG, nil)
	}
}

// Handle names one process. It cannot hold on to it here.
type Handle struct{ ref Ref }

// Open returns a handle of the process: os.ErrProcessDone if it is gone.
func (r Ref) Open() (*Handle, error) {
	if info, err := Lookup(r.PID); err != nil || info.Ref != r {
		return nil, os.ErrProcessDone
	}
	return &Handle{r}, nil
}

// Close lets go of the process.
func (h *Handle) Close() {}

// Wait returns nil when the process has ended, or ctx's error.
func (h *Handle) Wait(ctx context.Context) error {
	for h.ref.Alive() {
		if retry.Sleep(ctx, pollInterval) != nil {
			return ctx.Err()
		}
	}
	return nil
}

// Signal sends a signal: os.ErrProcessDone if the process is gone.
func (h *Handle) Signal(sig unix.Signal) error { return h.ref.Signal(sig) }

// Signal sends one signal to the process: os.ErrProcessDone if it is gone.
func (r Ref) Signal(sig unix.Signal) error {
	if !r.Alive() {
		return os.ErrProcessDone
	}
	err := unix.Kill(r.PID, sig)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// Set tells which of many processes ended, by asking again and again. Each
// process has a key, which is what it is reported by, once.
type Set struct {
	mu struct {
		sync.Mutex
		refs map[string]Ref
	}
}

// NewSet returns an empty set. Close it.
func NewSet() (*Set, error) {
	s := &Set{}
	s.mu.refs = map[string]Ref{}
	return s, nil
}

// Has reports whether there is a process with this key in the set.
func (s *Set) Has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.mu.refs[key]
	return ok
}

// Add watches a process. One that is gone already is reported like one that
// ends later.
func (s *Set) Add(h *Handle, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.refs[key] = h.ref
	return nil
}

// AddGone reports the key as that of a process that has ended.
func (s *Set) AddGone(key string) error { return s.Add(&Handle{}, key) }

// Wait returns the keys of processes that ended, at least one; or ctx's error.
// One caller at a time.
func (s *Set) Wait(ctx context.Context) ([]string, error) {
	for {
		if keys := s.take(); len(keys) > 0 {
			return keys, nil
		}
		if retry.Sleep(ctx, pollInterval) != nil {
			return nil, ctx.Err()
		}
	}
}

func (s *Set) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key, r := range s.mu.refs {
		if !r.Alive() {
			keys = append(keys, key)
			delete(s.mu.refs, key)
		}
	}
	return keys
}

// Close ends the set.
func (s *Set) Close() {}
