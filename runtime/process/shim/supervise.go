// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// ended is how the main process ended, and when.
type ended struct {
	status unix.WaitStatus
	at     time.Time
}

// supervise passes signals on until the main process has ended. It reaps what
// ends, so between two rounds the main process's PID cannot change its meaning.
func (s *shim) supervise() ended {
	stop := unix.Signal(s.spec.StopSignal)
	for {
		select {
		case <-s.dead:
			if status, ok := s.reap(); ok {
				return ended{status, time.Now()}
			}
		case sig := <-s.asked:
			if sig == unix.SIGUSR1 {
				stop = unix.SIGKILL
			}
			_ = unix.Kill(-s.main, stop)
		}
	}
}

// reap collects every child that has ended, and reports whether the main
// process is among them.
func (s *shim) reap() (unix.WaitStatus, bool) {
	var main unix.WaitStatus
	found := false
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || pid <= 0:
			return main, found
		case pid == s.main:
			main, found = status, true
		}
	}
}

// killAll kills what is left of the container and returns when nothing is, or
// when what is left belongs to somebody else (a set-user-ID program). Every
// descendant is a child of ours by now, or will be when its parent is killed.
func (s *shim) killAll() error {
	_ = unix.Kill(-s.main, unix.SIGKILL)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		s.reap()
		if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); errors.Is(err, unix.ECHILD) {
			return nil
		}
		all, err := proc.All()
		if err != nil {
			return err
		}
		left, refused := 0, 0
		for _, p := range proc.Descendants(all, os.Getpid()) {
			if p.Zombie {
				continue
			}
			left++
			if errors.Is(unix.Kill(p.PID, unix.SIGKILL), unix.EPERM) {
				refused++
			}
		}
		if left > 0 && left == refused {
			return fmt.Errorf("%d processes of other users could not be killed", left)
		}
		select {
		case <-s.dead:
		case <-time.After(wait):
		}
	}
}

// finish ends a container whose main process has ended: no process is left, the
// log is complete, then exit.json says so.
func (s *shim) finish(e ended) error {
	leftErr := s.killAll()
	if _, err := s.dir.Stat(record.ExecFile); err == nil {
		// What Exec left behind is nobody's child here; the marker finds it.
		entry := record.IDEnv + "=" + s.spec.ID
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		leftErr = errors.Join(leftErr, proc.KillAll(ctx, func(p proc.Info) bool { return proc.HasEnv(p.PID, entry) }))
		cancel()
	}
	s.log.wait()

	exit := record.Exit{Reason: "Completed", FinishedAt: e.at}
	switch {
	case e.status.Signaled():
		exit.Code = 128 + int32(e.status.Signal())
	default:
		exit.Code = int32(e.status.ExitStatus())
	}
	if exit.Code != 0 {
		exit.Reason = "Error"
	}
	exit.Message = s.message(exit.Code, leftErr)
	err := record.WriteDurable(s.dir, record.ExitFile, exit)
	if err != nil && exit.Message != "" {
		// A full disk: the code matters more than the words.
		exit.Message = ""
		err = record.WriteDurable(s.dir, record.ExitFile, exit)
	}
	return err
}
