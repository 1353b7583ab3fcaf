// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// killTime bounds the wait for a shim that kills the container. After killTime the shim is killed,
// and the next call that observes the container kills the remaining processes.
const killTime = 10 * time.Second

// StopContainer sends the stop signal to the container's process group, waits at most grace, and
// then kills every process of the container. A container that was never started becomes exited.
func (r *Runtime) StopContainer(ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, in, err := r.openContainer(id)
	if err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	defer s.close()
	defer in.close()
	for {
		v, err := r.halt(ctx, in, grace)
		if err == nil && v == verdictCreated {
			err = r.retire(in)
			if errors.Is(err, record.ErrLocked) {
				continue // a start is under way
			}
		}
		if err != nil {
			return fmt.Errorf("stop container %s: %w", in.key.name, err)
		}
		return nil
	}
}

// halt ends a container's processes. The verdict is exited or created.
func (r *Runtime) halt(ctx context.Context, in *instance, grace time.Duration) (verdict, error) {
	for {
		o, err := r.observe(ctx, in)
		if err != nil {
			return o.verdict, err
		}
		if o.verdict == verdictExited || o.verdict == verdictCreated {
			return o.verdict, awaitEnd(ctx, in, o.process.Shim)
		}
		shim, err := in.hold(o.process.Shim)
		switch {
		case errors.Is(err, os.ErrProcessDone) && o.verdict == verdictUnknown:
			return o.verdict, fmt.Errorf("no shim is found that runs it: %w", o.err)
		case errors.Is(err, os.ErrProcessDone):
			continue // the container has ended since observe
		case err != nil:
			return o.verdict, err
		}
		if err := endShim(ctx, shim, grace); err != nil {
			return o.verdict, err
		}
	}
}

// endShim makes a shim end the container, returns when the shim has ended, and closes the handle.
func endShim(ctx context.Context, shim *proc.Handle, grace time.Duration) error {
	defer shim.Close()
	defer shim.Reap()
	for _, step := range []struct {
		signal  unix.Signal
		atMost  time.Duration
		skipped bool
	}{
		{record.StopSignal, grace, grace <= 0},
		{record.KillSignal, killTime, false},
		{unix.SIGKILL, killTime, false}, // the next observe kills the remaining processes
	} {
		if step.skipped {
			continue
		}
		err := shim.Signal(step.signal)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("signal the shim: %w", err)
		}
		waiting, cancel := context.WithTimeout(ctx, step.atMost)
		err = shim.Wait(waiting)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case waiting.Err() == nil:
			return err
		}
	}
	return errors.New("the shim cannot be killed")
}

// awaitEnd waits for the end of a shim that has recorded the container's exit.
func awaitEnd(ctx context.Context, in *instance, hint proc.Ref) error {
	h, err := proc.HoldAt(hint, in.isShim)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	ending, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	if err := h.Wait(ending); err == nil {
		h.Reap()
	}
	return ctx.Err()
}

// retire makes a container that was never started exited, so that a start under way fails. The
// error is record.ErrLocked if a start holds the lock.
func (r *Runtime) retire(in *instance) error {
	lock, err := record.TryLock(in.dir, in.key.id().ID)
	if err != nil {
		return err
	}
	defer lock.Close()
	_, f, err := r.look(in, searchNowhere)
	if err != nil {
		return err
	}
	if judge(f) != verdictCreated {
		return record.ErrLocked // the container was started since, and may have ended
	}
	return record.Write(in.dir, record.ExitFile, record.Exit{
		Code: 137, Reason: runtime.ReasonError, Message: "stopped before it was started", FinishedAt: time.Now(),
	})
}
