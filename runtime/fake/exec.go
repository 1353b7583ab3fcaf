// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

const execOutput = 16 << 10 // bytes of each stream that Exec keeps

// Exec implements runtime.Execer with Script.Exec. If the container exits meanwhile, the command is
// killed: exit code 137.
func (r *Runtime) Exec(ctx context.Context, id runtime.ContainerID, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	var res ExecResult
	err = r.onContainer(ctx, OpExec, id, fmt.Sprintf("%q", cmd), func(c *container) error {
		if len(cmd) == 0 {
			return errors.New("exec: the command is empty")
		}
		inside, cancel := context.WithCancel(ctx)
		defer cancel()
		script, spec, ready, err := r.enter(c, &cancel)
		if err != nil {
			return err
		}
		defer r.leave(c, &cancel)
		if script.Exec == nil {
			if !ready {
				res.ExitCode = 1
			}
			return nil
		}
		res = script.Exec(inside, spec, slices.Clone(cmd))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case inside.Err() != nil:
			res.ExitCode = sigkilled
			return nil
		default:
			return res.Err
		}
	})
	if err != nil {
		return nil, nil, 0, err
	}
	return res.Stdout[:min(len(res.Stdout), execOutput)], res.Stderr[:min(len(res.Stderr), execOutput)], res.ExitCode, nil
}

// enter registers a command that the exit of c cancels.
func (w *World) enter(c *container, cancel *context.CancelFunc) (script *Script, spec runtime.ContainerSpec, ready bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.state != runtime.StateRunning {
		return nil, runtime.ContainerSpec{}, false, fmt.Errorf("exec in %s, which is %s, not running", c.id, c.state)
	}
	c.execs = append(c.execs, cancel)
	return c.script, c.spec, c.ready(), nil
}

func (w *World) leave(c *container, cancel *context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.execs = slices.DeleteFunc(c.execs, func(other *context.CancelFunc) bool { return other == cancel })
}

// ready reports whether c runs and ReadyAfter has passed. World.mu is held.
func (c *container) ready() bool {
	return c.state == runtime.StateRunning && time.Since(c.started) >= c.script.ReadyAfter
}
