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
	"github.com/keelson-dev/keelson/runtime/process/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// killTime is how long a shim may take to kill its container before it is
// killed itself and its work done for it.
const killTime = 10 * time.Second

// StopContainer sends the stop signal to the container's process group, waits
// at most grace, then kills every process of it. A container that was never
// started becomes exited.
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
				continue // somebody starts it just now
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
			return o.verdict, awaitEnd(ctx, o.process.Shim)
		}
		shim := o.process.Shim
		if o.verdict == verdictUnknown && !shim.Alive() {
			var found bool
			if shim, found = proc.Find(record.ShimName, in.path); !found {
				return o.verdict, fmt.Errorf("nobody is found who runs it: %w", o.err)
			}
		}
		if err := endShim(ctx, shim, grace); err != nil {
			return o.verdict, err
		}
	}
}

// endShim makes a shim end its container, and returns when the shim has ended.
func endShim(ctx context.Context, shim proc.Ref, grace time.Duration) error {
	h, err := shim.Open()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	defer shim.Reap()
	for _, step := range []struct {
		signal  unix.Signal
		atMost  time.Duration
		skipped bool
	}{
		{unix.SIGTERM, grace, grace <= 0}, // passed on as the stop signal
		{unix.SIGUSR1, killTime, false},   // kill everything
		{unix.SIGKILL, killTime, false},   // what is left is killed by whoever looks next
	} {
		if step.skipped {
			continue
		}
		err := h.Signal(step.signal)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("signal the shim: %w", err)
		}
		waiting, cancel := context.WithTimeout(ctx, step.atMost)
		err = h.Wait(waiting)
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

// awaitEnd waits for a shim that has written how its container ended and is just
// about to end itself.
func awaitEnd(ctx context.Context, shim proc.Ref) error {
	h, err := shim.Open()
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
		shim.Reap()
	}
	return ctx.Err()
}

// retire makes a container that was never started exited, so that no start that
// is under way can start it any more. record.ErrLocked: one has begun.
func (r *Runtime) retire(in *instance) error {
	lock, err := record.TryLock(in.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	_, f, err := r.look(in)
	if err != nil {
		return err
	}
	f.locked = false // it is ours
	if judge(f) != verdictCreated {
		return record.ErrLocked // it was started, and maybe ended, meanwhile
	}
	return record.Write(in.dir, record.ExitFile, record.Exit{
		Code: 137, Reason: runtime.ReasonError, Message: "stopped before it was started", FinishedAt: time.Now(),
	})
}
