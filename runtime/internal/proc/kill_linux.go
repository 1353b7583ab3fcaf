// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/retry"
)

// KillMarked kills every process that was started with entry, "NAME=value", in its
// environment, and every process of the sessions that such processes have made, again
// and again until none is left, because what is killed may just have had children.
// It gives up when ctx ends or when what is left may not be killed by this user.
//
// A PID is never taken for a process: what is asked of the kernel by PID is asked
// while a pidfd is held, and counts only if its process still runs after that.
// No number from elsewhere is needed: the last argument is for other systems.
func KillMarked(ctx context.Context, entry string, _ Ref) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		left, refused, err := killMarkedOnce(ctx, entry)
		switch {
		case left == 0:
			return err
		case left == refused:
			return fmt.Errorf("%d processes cannot be killed: %w", left, err)
		}
		if retry.Sleep(ctx, wait) != nil {
			return fmt.Errorf("%d processes left: %w", left, ctx.Err())
		}
	}
}

// killMarkedOnce kills what there is now and waits until that has ended. It returns how
// many processes that were, and how many of them may not be killed, and why.
func killMarkedOnce(ctx context.Context, entry string) (left, refused int, err error) {
	pids, err := pids()
	if err != nil {
		return 0, 0, err
	}
	marked := map[int]*Handle{}
	defer func() {
		for _, h := range marked {
			h.Close()
		}
	}()
	for _, pid := range pids {
		if pid == os.Getpid() || !HasEnv(pid, entry) {
			continue
		}
		h, openErr := open(pid)
		if openErr != nil {
			continue
		}
		if h, openErr = h.prove(func(pid int) bool { return HasEnv(pid, entry) }); openErr == nil {
			marked[pid] = h
		}
	}
	var killed []*Handle
	kill := func(h *Handle) {
		left++
		if killErr := h.Signal(unix.SIGKILL); killErr != nil && killErr != os.ErrProcessDone {
			refused, err = refused+1, killErr
			return
		}
		killed = append(killed, h)
	}
	// First the rest of the sessions: their numbers are theirs as long as the marked
	// processes in them have not been killed.
	anchors := sessions(marked)
	for _, pid := range pids {
		info, lookErr := Lookup(pid)
		if lookErr != nil || marked[pid] != nil || info.Zombie || anchors[info.SID] == nil || pid == os.Getpid() {
			continue
		}
		h, openErr := open(pid)
		if openErr != nil {
			continue
		}
		if h, openErr = h.prove(func(pid int) bool { return inSession(pid, info.SID, anchors[info.SID]) }); openErr == nil {
			defer h.Close()
			kill(h)
		}
	}
	for _, h := range marked {
		kill(h)
	}
	for _, h := range killed {
		_ = h.Wait(ctx) // if ctx has ended, KillMarked says so
	}
	return left, refused, err
}

// sessions returns a marked process of each session that the container has made. A marked process
// may have joined a session that the container has not made: a session with another leader, the
// session of this process, and session 0, which is the number of every session made outside the
// PID namespace. The other processes of such a session are not the container's.
func sessions(marked map[int]*Handle) map[int]*Handle {
	own, err := Lookup(os.Getpid())
	if err != nil {
		return nil
	}
	out := map[int]*Handle{}
	for pid, h := range marked {
		info, err := Lookup(pid)
		if err != nil || info.SID <= 0 || info.SID == own.SID {
			continue
		}
		leader, err := Lookup(info.SID)
		if marked[info.SID] != nil || err != nil || leader.Zombie {
			out[info.SID] = h
		}
	}
	return out
}

// inSession reports whether the process is in this session, of which anchor, a process
// in it, is held: while it is, the number is of this session.
func inSession(pid, session int, anchor *Handle) bool {
	info, err := Lookup(pid)
	if err != nil || info.SID != session {
		return false
	}
	held, err := Lookup(anchor.pid)
	return err == nil && held.SID == session && anchor.Signal(0) == nil
}
