// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// Runtime is the World's runtime for a single agent: it stops working when the agent crashes, and
// its calls have the deadlines of package runtime/cri. Options.Agent finds the Runtime in the
// options, and may wrap it.
type Runtime struct {
	*fake.Runtime
	lease   *lease
	history *recorder
}

var (
	_ runtime.Watcher     = (*Runtime)(nil)
	_ runtime.Execer      = (*Runtime)(nil)
	_ runtime.Checker     = (*Runtime)(nil)
	_ runtime.MemoryMeter = (*Runtime)(nil)
)

// RunSandbox implements runtime.Runtime.
func (r *Runtime) RunSandbox(ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
	call := fake.Call{Op: fake.OpRunSandbox, UID: spec.UID, Pod: spec.Name}
	return through(ctx, r.lease, call, func(ctx context.Context) (runtime.SandboxID, error) { return r.Runtime.RunSandbox(ctx, spec) })
}

// StopSandbox implements runtime.Runtime.
func (r *Runtime) StopSandbox(ctx context.Context, id runtime.SandboxID) error {
	return r.only(ctx, fake.Call{Op: fake.OpStopSandbox}, func(ctx context.Context) error { return r.Runtime.StopSandbox(ctx, id) })
}

// RemoveSandbox implements runtime.Runtime.
func (r *Runtime) RemoveSandbox(ctx context.Context, id runtime.SandboxID) error {
	return r.only(ctx, fake.Call{Op: fake.OpRemoveSandbox}, func(ctx context.Context) error { return r.Runtime.RemoveSandbox(ctx, id) })
}

// CreateContainer implements runtime.Runtime.
func (r *Runtime) CreateContainer(ctx context.Context, sandbox runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	call := fake.Call{Op: fake.OpCreateContainer, Container: spec.Name}
	if spec.Pod != nil {
		call.UID, call.Pod = spec.Pod.UID, spec.Pod.Name
	}
	return through(ctx, r.lease, call, func(ctx context.Context) (runtime.ContainerID, error) {
		id, err := r.Runtime.CreateContainer(ctx, sandbox, spec)
		if err == nil {
			r.history.made(id, &spec)
		}
		return id, err
	})
}

// StartContainer implements runtime.Runtime.
func (r *Runtime) StartContainer(ctx context.Context, id runtime.ContainerID) error {
	return r.only(ctx, fake.Call{Op: fake.OpStartContainer}, func(ctx context.Context) error { return r.Runtime.StartContainer(ctx, id) })
}

// StopContainer implements runtime.Runtime.
func (r *Runtime) StopContainer(ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+callPatience)
	defer cancel()
	return r.only(ctx, fake.Call{Op: fake.OpStopContainer}, func(ctx context.Context) error { return r.Runtime.StopContainer(ctx, id, grace) })
}

// RemoveContainer implements runtime.Runtime.
func (r *Runtime) RemoveContainer(ctx context.Context, id runtime.ContainerID) error {
	return r.only(ctx, fake.Call{Op: fake.OpRemoveContainer}, func(ctx context.Context) error { return r.Runtime.RemoveContainer(ctx, id) })
}

// List implements runtime.Runtime.
func (r *Runtime) List(ctx context.Context, opts runtime.ListOptions) ([]*runtime.PodStatus, error) {
	return through(ctx, r.lease, fake.Call{Op: fake.OpList}, func(ctx context.Context) ([]*runtime.PodStatus, error) { return r.Runtime.List(ctx, opts) })
}

// PodStatus implements runtime.Runtime.
func (r *Runtime) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	call := fake.Call{Op: fake.OpPodStatus, UID: uid}
	return through(ctx, r.lease, call, func(ctx context.Context) (*runtime.PodStatus, error) { return r.Runtime.PodStatus(ctx, uid) })
}

// UpdateResources implements runtime.Updater.
func (r *Runtime) UpdateResources(ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error {
	return r.only(ctx, fake.Call{Op: fake.OpUpdateResources}, func(ctx context.Context) error { return r.Runtime.UpdateResources(ctx, id, want) })
}

// MemoryUsage implements runtime.MemoryMeter.
func (r *Runtime) MemoryUsage(ctx context.Context, id runtime.ContainerID) (int64, error) {
	return through(ctx, r.lease, fake.Call{Op: fake.OpMemoryUsage}, func(ctx context.Context) (int64, error) { return r.Runtime.MemoryUsage(ctx, id) })
}

// Exec implements runtime.Execer.
func (r *Runtime) Exec(ctx context.Context, id runtime.ContainerID, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	type output struct {
		stdout, stderr []byte
		exitCode       int
	}
	out, err := through(ctx, r.lease, fake.Call{Op: fake.OpExec}, func(ctx context.Context) (o output, err error) {
		if o.stdout, o.stderr, o.exitCode, err = r.Runtime.Exec(ctx, id, cmd); cmd[0] == hookFails {
			o.exitCode = 1
		} else if cmd[0] == hookPasses {
			o.exitCode = 0
		}
		return o, err
	})
	return out.stdout, out.stderr, out.exitCode, err
}

// Watch implements runtime.Watcher.
func (r *Runtime) Watch(ctx context.Context) iter.Seq2[types.UID, error] {
	return func(yield func(types.UID, error) bool) {
		if err := r.lease.pass(ctx); err != nil {
			yield("", err)
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-r.lease.gone:
				cancel(errCrashed)
			case <-ended:
			}
		}()
		for uid, err := range r.Runtime.Watch(ctx) {
			if held := r.lease.pass(ctx); held != nil {
				return
			}
			if !yield(uid, err) {
				return
			}
		}
	}
}

func (r *Runtime) only(ctx context.Context, call fake.Call, do func(context.Context) error) error {
	_, err := through(ctx, r.lease, call, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// heldPatcher is the API server for the holder of a lease.
type heldPatcher struct {
	*api
	lease *lease
}

var _ statusmanager.Getter = (*heldPatcher)(nil)

// GetPod implements statusmanager.Getter.
func (p *heldPatcher) GetPod(ctx context.Context, ref statusmanager.PodRef) (*v1.Pod, error) {
	return through(ctx, p.lease, fake.Call{Op: OpGetPod, UID: ref.UID, Pod: ref.Name}, func(ctx context.Context) (*v1.Pod, error) {
		return p.server.GetPod(ctx, ref)
	})
}

// The names of an agent's requests to the API server, for Node.CrashAgentOn.
const (
	OpGetPod      fake.Op = "GetPod"
	OpPatchStatus fake.Op = "PatchStatus"
	OpDeletePod   fake.Op = "DeletePod"
)

// PatchStatus implements statusmanager.Patcher.
func (p *heldPatcher) PatchStatus(ctx context.Context, ref statusmanager.PodRef, patch []byte) (*v1.Pod, error) {
	call := fake.Call{Op: OpPatchStatus, UID: ref.UID, Pod: ref.Name}
	return through(ctx, p.lease, call, func(ctx context.Context) (*v1.Pod, error) { return p.server.PatchStatus(ctx, ref, patch) })
}

// heldSetter is a heldPatcher with the pods in its own process.
type heldSetter struct {
	*heldPatcher
	client *statustest.Client
}

var _ statusmanager.Setter = (*heldSetter)(nil)

// SetStatus implements statusmanager.Setter.
func (s *heldSetter) SetStatus(ctx context.Context, ref statusmanager.PodRef, patch statusmanager.Patch) (*v1.Pod, error) {
	call := fake.Call{Op: OpPatchStatus, UID: ref.UID, Pod: ref.Name}
	return through(ctx, s.lease, call, func(ctx context.Context) (*v1.Pod, error) { return s.client.SetStatus(ctx, ref, patch) })
}

// DeletePod implements statusmanager.Patcher.
func (p *heldPatcher) DeletePod(ctx context.Context, ref statusmanager.PodRef) error {
	call := fake.Call{Op: OpDeletePod, UID: ref.UID, Pod: ref.Name}
	_, err := through(ctx, p.lease, call, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.api.DeletePod(ctx, ref) })
	return err
}

// heldEvents passes on the events of an agent while the agent lives.
type heldEvents struct {
	to    runtime.EventRecorder
	lease *lease
}

// Event implements runtime.EventRecorder.
func (e heldEvents) Event(object apiruntime.Object, eventType, reason, message string) {
	if !e.lease.isDead() {
		e.to.Event(object, eventType, reason, message)
	}
}
