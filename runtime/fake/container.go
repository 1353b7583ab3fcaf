// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// CreateContainer implements runtime.Runtime. A second container with the same name and
// RestartCount is accepted.
func (r *Runtime) CreateContainer(ctx context.Context, id runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	call := Call{Op: OpCreateContainer, Container: spec.Name, Image: spec.Image}
	r.mu.Lock()
	if s := r.mu.sandboxes[id]; s != nil {
		call.UID, call.Namespace, call.Pod = s.pod.uid, s.pod.namespace, s.pod.name
	}
	r.mu.Unlock()
	var out runtime.ContainerID
	err := r.do(ctx, call, "", fmt.Sprintf("restart %d", spec.RestartCount), func(f *flight) error {
		if err := r.CheckPod(spec.Pod); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		s := r.mu.sandboxes[id]
		if s == nil {
			return errNotFound("sandbox", string(id))
		}
		if !s.ready {
			return fmt.Errorf("create in sandbox %s: %w", id, errNotReady)
		}
		c := r.addContainer(s, spec)
		f.made(c.id)
		out = runtime.ContainerID{Runtime: r.opts.Name, ID: c.id}
		return nil
	})
	if err != nil {
		return runtime.ContainerID{}, err
	}
	return out, nil
}

// addContainer makes the record of a created container. World.mu is held.
func (w *World) addContainer(s *sandbox, spec runtime.ContainerSpec) *container {
	c := &container{
		id: w.nextID("container"), pod: s.pod, sandbox: s, spec: spec,
		state: runtime.StateCreated, created: time.Now(),
	}
	s.pod.containers = append(s.pod.containers, c)
	w.mu.containers[c.id] = c
	return c
}

// onContainer executes a call on a container. act runs with no lock held.
func (r *Runtime) onContainer(ctx context.Context, op Op, id runtime.ContainerID, detail string, act func(*container) error) error {
	call := Call{Op: op}
	if c := r.find(id); c != nil {
		call = c.call(op)
	}
	return r.do(ctx, call, id.ID, detail, func(*flight) error {
		c := r.find(id)
		if c == nil {
			return errNotFound("container", id.ID)
		}
		return act(c)
	})
}

func (w *World) find(id runtime.ContainerID) *container {
	if id.Runtime != w.opts.Name {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.containers[id.ID]
}

// StartContainer implements runtime.Runtime.
func (r *Runtime) StartContainer(ctx context.Context, id runtime.ContainerID) error {
	return r.onContainer(ctx, OpStartContainer, id, "", func(c *container) error {
		spec, err := r.startable(c)
		if err != nil {
			return err
		}
		// The World is not locked during the script's functions and the disk writes. mayStart is
		// checked again afterwards.
		script := r.scriptFor(c.call(OpStartContainer), spec.Pod, spec)
		var output []Line
		switch {
		case script.StartErr != nil:
			script.Log = nil // writeLog creates an empty file
		case script.Output != nil:
			output = script.Output(spec)
		}
		if err := r.writeLog(spec.LogPath, script.Log, output); err != nil {
			return fmt.Errorf("write the container's log: %w", err)
		}
		if script.StartErr != nil {
			return r.failStart(c, script.StartErr)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := r.mayStart(c); err != nil {
			return err
		}
		c.script, c.output = script, output
		r.run(c)
		return nil
	})
}

// failStart ends a created container whose program cannot be executed, and returns cause.
func (w *World) failStart(c *container, cause error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.mayStart(c); err != nil {
		return err
	}
	c.message = cause.Error()
	w.exit(c, runtime.ExitCodeStartError, runtime.ReasonStartError)
	return cause
}

func (w *World) startable(c *container) (runtime.ContainerSpec, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.spec, w.mayStart(c)
}

// mayStart returns an error if c cannot be started now. World.mu is held.
func (w *World) mayStart(c *container) error {
	switch {
	case w.mu.containers[c.id] != c:
		return errNotFound("container", c.id)
	case c.state != runtime.StateCreated:
		return fmt.Errorf("start %s, which is %s: %w", c.id, c.state, errNotCreated)
	case !c.sandbox.ready:
		return fmt.Errorf("start %s in sandbox %s: %w", c.id, c.sandbox.id, errNotReady)
	}
	return nil
}

// StopContainer implements runtime.Runtime. A created container becomes exited with code 137.
func (r *Runtime) StopContainer(ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
	return r.onContainer(ctx, OpStopContainer, id, fmt.Sprintf("grace %v", grace), func(c *container) error {
		done := r.askToStop(c, grace)
		if done == nil {
			return nil
		}
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kill(c)
		return nil
	})
}

// askToStop executes the immediate part of a stop. If c still runs afterwards, the returned channel
// is closed at the exit of c. Otherwise the channel is nil.
func (w *World) askToStop(c *container, grace time.Duration) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case c.state == runtime.StateExited:
		return nil
	case c.state == runtime.StateCreated:
		w.exit(c, sigkilled, "")
		return nil
	case grace <= 0:
		w.kill(c)
		return nil
	}
	w.terminate(c)
	if c.state == runtime.StateExited {
		return nil
	}
	if c.done == nil {
		c.done = make(chan struct{})
	}
	return c.done
}

// RemoveContainer implements runtime.Runtime.
func (r *Runtime) RemoveContainer(ctx context.Context, id runtime.ContainerID) error {
	return r.onContainer(ctx, OpRemoveContainer, id, "", func(c *container) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kill(c)
		if r.mu.containers[c.id] == c {
			r.dropContainer(c)
		}
		return nil
	})
}
