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

// pollInterval is the interval between checks for the end of a process, because there is no pidfd.
const pollInterval = 20 * time.Millisecond

// BootID identifies the current boot of the machine.
func BootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// Lookup returns the kernel's data about a PID, or os.ErrProcessDone without a process.
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

// All returns all processes.
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

// HasEnv is not available on this system and returns false.
func HasEnv(int, string) bool { return false }

// Match recognizes a process by its arguments. On this system the arguments are not visible.
type Match func(args []string) bool

// Is reports whether the process runs.
func Is(r Ref, _ Match) bool { return r.Alive() }

// HoldAt returns a handle of the process, or os.ErrProcessDone if the process has ended.
func HoldAt(hint Ref, _ Match) (*Handle, error) { return hint.Open() }

// Hold is HoldAt, because processes cannot be recognized on this system.
func Hold(hint Ref, _ Match) (*Handle, error) { return hint.Open() }

// KillMarked kills the process group of main, if main still leads the group. Marks are not visible
// on this system.
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

// Marked is not available, because environments are not visible on this system.
func Marked(string) (map[int]string, error) { return nil, nil }

// Place has the arguments and the working directory of a process.
type Place struct {
	Args []string
	Dir  string
}

// Places is not available, because arguments are not visible on this system.
func Places(Match) (map[int]Place, error) { return nil, nil }

// PlaceOf is not available either.
func PlaceOf(int, Match) (p Place, ok bool) { return p, false }

func open(pid int) (*Handle, error) {
	info, err := Lookup(pid)
	return &Handle{info.Ref}, err
}

// PID returns the PID of the process.
func (h *Handle) PID() int { return h.ref.PID }

// Memory is not available on this system and returns fs.ErrNotExist.
func (h *Handle) Memory(string) ([]byte, error) { return nil, fs.ErrNotExist }

// Reap reaps the process if it has ended and is a child of this process.
func (h *Handle) Reap() {
	if info, err := Lookup(h.ref.PID); err == nil && info.Ref == h.ref && info.Zombie && info.PPID == os.Getpid() {
		_, _ = unix.Wait4(h.ref.PID, nil, unix.WNOHANG, nil)
	}
}

// Handle identifies a process. It does not keep the PID from being reused.
type Handle struct{ ref Ref }

// Open returns a handle of the process, or os.ErrProcessDone if the process has ended.
func (r Ref) Open() (*Handle, error) {
	if info, err := Lookup(r.PID); err != nil || info.Ref != r {
		return nil, os.ErrProcessDone
	}
	return &Handle{r}, nil
}

// File returns nil, because this system has no pidfd.
func (h *Handle) File() *os.File { return nil }

// Close does nothing.
func (h *Handle) Close() {}

// Wait returns nil after the end of the process, or the error of ctx.
func (h *Handle) Wait(ctx context.Context) error {
	for h.ref.Alive() {
		if retry.Sleep(ctx, pollInterval) != nil {
			return ctx.Err()
		}
	}
	return nil
}

// Signal sends a signal. The error is os.ErrProcessDone if the process has ended.
func (h *Handle) Signal(sig unix.Signal) error { return h.ref.Signal(sig) }

// Signal sends a signal. The error is os.ErrProcessDone if the process has ended.
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

// Set reports the ends of many processes, by polling. Each process has a key and is reported once.
type Set struct {
	mu struct {
		sync.Mutex
		refs map[string]Ref
	}
}

// NewSet returns an empty set. The caller closes the set.
func NewSet() (*Set, error) {
	s := &Set{}
	s.mu.refs = map[string]Ref{}
	return s, nil
}

// Has reports whether the set has a process with this key.
func (s *Set) Has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.mu.refs[key]
	return ok
}

// Add watches a process. A process that has already ended is reported, too.
func (s *Set) Add(h *Handle, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.refs[key] = h.ref
	return nil
}

// AddGone reports the key like that of an ended process.
func (s *Set) AddGone(key string) error { return s.Add(&Handle{}, key) }

// Wait returns the keys of at least one ended process, or the error of ctx. Only one call at a time
// is allowed.
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

// Close does nothing.
func (s *Set) Close() {}
