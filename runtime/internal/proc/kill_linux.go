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

// KillMarked kills every process with entry, "NAME=value", in its initial environment, and every
// process in the sessions made by such processes. It repeats until no process is left, because a
// killed process may have had new children. It ends early if ctx ends, or if this user may not kill
// the remaining processes.
//
// KillMarked never trusts a PID alone: it inspects a PID while it holds a pidfd, and the result
// counts only if the process still runs afterwards. The last argument is for other systems.
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

// killMarkedOnce kills the present processes and waits for their end. left is their number. refused
// is the number of processes that this user may not kill, and err the reason.
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
	// The other processes of the sessions come first: the number of a session stays valid while its
	// marked process is alive.
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
		_ = h.Wait(ctx) // after the end of ctx KillMarked returns its error
	}
	return left, refused, err
}

// sessions returns a marked process for each session that the container has made. A marked process
// may have joined a session of another maker: a session with another leader, the session of this
// process, or session 0, which is the number of every session made outside the PID namespace. The
// other processes of such a session do not belong to the container.
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

// inSession reports whether the process is in the session of anchor. While the handle anchor of a
// process in the session is open, the number of the session is valid.
func inSession(pid, session int, anchor *Handle) bool {
	info, err := Lookup(pid)
	if err != nil || info.SID != session {
		return false
	}
	held, err := Lookup(anchor.pid)
	return err == nil && held.SID == session && anchor.Signal(0) == nil
}
