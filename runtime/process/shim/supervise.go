// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/ending"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// ended is the end of the main process.
type ended struct {
	record.End // the code is set when the process is reaped
	reaped     bool
}

// supervise passes signals on until the main process has ended. Only supervise reaps children, so
// the main process's PID is not reused between two rounds.
func (s *shim) supervise() {
	if s.ended.reaped { // by the program of a nap
		return
	}
	stop := unix.Signal(s.spec.StopSignal)
	idle := time.NewTimer(s.patience)
	defer idle.Stop()
	for {
		select {
		case <-idle.C:
			if left := s.patience - s.log.quiet(); left > 0 {
				idle.Reset(left)
			} else if s.doze() { // and this process did not
				idle.Reset(s.patience)
			}
		case <-s.dead:
			// An unreaped main process keeps the number of the process group.
			if !hasEnded(s.main) {
				s.reap()
			}
			if s.ended.reaped || hasEnded(s.main) {
				s.ended.At = time.Now()
				return
			}
		case sig := <-s.asked:
			if sig == record.KillSignal {
				stop = unix.SIGKILL
			}
			_ = unix.Kill(-s.main, stop)
		}
	}
}

// reap reaps every ended child, and reports whether a child is left.
func (s *shim) reap() bool {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			return false
		case err != nil || pid <= 0:
			return true
		case pid == s.main:
			s.ended.Code, s.ended.reaped = int32(status.ExitStatus()), true
			if status.Signaled() {
				s.ended.Code = 128 + int32(status.Signal())
			}
		}
	}
}

// killAll kills the remaining processes of the container. killAll returns when no process is left,
// or when all remaining processes belong to another user (set-user-ID programs). killAll signals
// only unreaped children, whose PIDs cannot be reused.
func (s *shim) killAll() error {
	s.killGroup()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if !s.reap() {
			return nil
		}
		all, err := proc.All()
		if err != nil {
			return err
		}
		left, refused := 0, 0
		for _, p := range mine(all) {
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

// finish ends a container after the end of the main process: finish kills the remaining processes,
// completes the log, and writes exit.json.
func (s *shim) finish() error {
	leftErr := s.killAll()
	if _, err := s.dir.Stat(record.ExecFile); err == nil {
		// Processes of Exec are no children of the shim. The mark finds them.
		entry := record.IDEnv + "=" + s.spec.ID
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		leftErr = errors.Join(leftErr, proc.KillMarked(ctx, entry, proc.Ref{}))
		cancel()
	}
	s.log.wait()

	exit := ending.Exit(s.dir, &s.spec, s.ended.End, s.log.tail(), leftErr)
	if s.said != nil {
		_ = s.said.Close() // without a statement, readers trust exit.json
	}
	err := record.WriteDurable(s.dir, record.ExitFile, exit)
	if err != nil && exit.Message != "" {
		// On a full disk, a record without the message may still fit.
		exit.Message = ""
		err = record.WriteDurable(s.dir, record.ExitFile, exit)
	}
	s.self.Exit = &exit
	return errors.Join(err, record.Write(s.dir, record.ProcessFile, s.self))
}
