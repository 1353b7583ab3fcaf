// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Runtime is the backend of an agent. Beside runtime.Runtime it implements Watcher, Execer,
// Checker, Updater, MemoryMeter, stats.Reader and Streamer. All state is in the embedded World. A
// Runtime owns no goroutine.
type Runtime struct {
	*World
	check    func(*v1.Pod) error
	watching atomic.Bool
}

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ runtime.Watcher = (*Runtime)(nil)
	_ runtime.Execer  = (*Runtime)(nil)
	_ runtime.Checker = (*Runtime)(nil)
)

// New makes a Runtime.
func New(opts Options) (*Runtime, error) {
	if opts.World == nil {
		w, err := NewWorld(WorldOptions{})
		if err != nil {
			return nil, err
		}
		opts.World = w
	}
	return &Runtime{World: opts.World, check: opts.Check}, nil
}

// Name returns WorldOptions.Name.
func (r *Runtime) Name() string { return r.opts.Name }

// CheckPod calls Options.Check.
func (r *Runtime) CheckPod(pod *v1.Pod) error {
	if r.check == nil || pod == nil {
		return nil
	}
	return r.check(pod)
}

// errNotFound returns the error of a call with an ID that has no record.
func errNotFound(kind, id string) error {
	return fmt.Errorf("%s %q: %w", kind, id, runtime.ErrNotFound)
}

// RunSandbox implements runtime.Runtime. A second sandbox with the same attempt is accepted.
func (r *Runtime) RunSandbox(ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
	var id runtime.SandboxID
	call := Call{Op: OpRunSandbox, UID: spec.UID, Namespace: spec.Namespace, Pod: spec.Name}
	err := r.do(ctx, call, "", fmt.Sprintf("attempt %d", spec.Attempt), func(f *flight) error {
		if err := r.CheckPod(spec.Pod); err != nil {
			return err
		}
		if err := r.makeLogDirectory(spec.LogDirectory); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		p := r.podFor(spec.UID, spec.Namespace, spec.Name)
		s := &sandbox{
			id: runtime.SandboxID(r.nextID("sandbox")), pod: p, attempt: spec.Attempt, ready: true,
			hostNetwork: spec.HostNetwork, ip: nodeIP, created: time.Now(),
		}
		if !s.hostNetwork {
			s.ip = r.nextIP()
		}
		p.sandboxes = append(p.sandboxes, s)
		r.mu.sandboxes[s.id] = s
		f.made(string(s.id))
		id = s.id
		return nil
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// onSandbox executes a call on a sandbox. act runs with World.mu held.
func (r *Runtime) onSandbox(ctx context.Context, op Op, id runtime.SandboxID, act func(*sandbox)) error {
	call := Call{Op: op}
	r.mu.Lock()
	if s := r.mu.sandboxes[id]; s != nil {
		call = s.call(op)
	}
	r.mu.Unlock()
	return r.do(ctx, call, string(id), "", func(*flight) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		s := r.mu.sandboxes[id]
		if s == nil {
			return errNotFound("sandbox", string(id))
		}
		act(s)
		return nil
	})
}

// StopSandbox implements runtime.Runtime.
func (r *Runtime) StopSandbox(ctx context.Context, id runtime.SandboxID) error {
	return r.onSandbox(ctx, OpStopSandbox, id, r.stopSandbox)
}

// RemoveSandbox implements runtime.Runtime.
func (r *Runtime) RemoveSandbox(ctx context.Context, id runtime.SandboxID) error {
	return r.onSandbox(ctx, OpRemoveSandbox, id, func(s *sandbox) {
		r.stopSandbox(s)
		r.dropSandbox(s)
	})
}

var (
	errNotCreated = errors.New("the container is not in state created")
	errNotReady   = errors.New("the sandbox is not ready")
)
