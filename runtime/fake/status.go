// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// List implements runtime.Runtime. Containers have only an ID, a name, a sandbox and a state, the
// minimum that runtime.Runtime requires. A pod without records to report is omitted. Pods are in
// creation order.
func (r *Runtime) List(ctx context.Context, opts runtime.ListOptions) ([]*runtime.PodStatus, error) {
	detail := ""
	if opts.RunningOnly {
		detail = "running only"
	}
	var out []*runtime.PodStatus
	err := r.do(ctx, Call{Op: OpList}, "", detail, func(f *flight) error {
		now := time.Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		if f.fault.lies() {
			for _, st := range f.fault.distort(r.fullStatuses()) {
				out = appendListed(out, narrow(st, opts))
			}
		} else {
			out = make([]*runtime.PodStatus, 0, len(r.mu.order))
			for _, p := range r.mu.order {
				out = appendListed(out, r.briefStatus(p, opts))
			}
		}
		for _, st := range out {
			st.ObservedAt = now
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func appendListed(out []*runtime.PodStatus, st *runtime.PodStatus) []*runtime.PodStatus {
	if len(st.Sandboxes)+len(st.Containers) == 0 {
		return out
	}
	return append(out, st)
}

// PodStatus implements runtime.Runtime.
func (r *Runtime) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	call := Call{Op: OpPodStatus, UID: uid}
	r.mu.Lock()
	if p := r.mu.pods[uid]; p != nil {
		call.Namespace, call.Pod = p.namespace, p.name
	}
	r.mu.Unlock()
	var out *runtime.PodStatus
	err := r.do(ctx, call, "", "", func(f *flight) error {
		now := time.Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		var all []*runtime.PodStatus
		switch p := r.mu.pods[uid]; {
		case f.fault.lies():
			all = slices.DeleteFunc(f.fault.distort(r.fullStatuses()), func(st *runtime.PodStatus) bool { return st.UID != uid })
		case p != nil:
			all = append(all, r.fullStatus(p))
		}
		if len(all) == 0 {
			all = append(all, &runtime.PodStatus{UID: uid})
		}
		out = all[0]
		out.ObservedAt = now
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// The functions below build statuses from records, with World.mu held. The results share no memory
// with the records.

func (w *World) fullStatuses() []*runtime.PodStatus {
	out := make([]*runtime.PodStatus, 0, len(w.mu.order))
	for _, p := range w.mu.order {
		out = append(out, w.fullStatus(p))
	}
	return out
}

func (w *World) fullStatus(p *pod) *runtime.PodStatus {
	st := &runtime.PodStatus{
		UID: p.uid, Namespace: p.namespace, Name: p.name,
		Sandboxes: w.sandboxStatuses(p, runtime.ListOptions{}),
	}
	if len(p.containers) > 0 {
		st.Containers = make([]runtime.ContainerStatus, 0, len(p.containers))
	}
	for _, c := range slices.Backward(p.containers) {
		st.Containers = append(st.Containers, w.containerStatus(c))
	}
	return st
}

func (w *World) briefStatus(p *pod, opts runtime.ListOptions) *runtime.PodStatus {
	st := &runtime.PodStatus{UID: p.uid, Namespace: p.namespace, Name: p.name, Sandboxes: w.sandboxStatuses(p, opts)}
	if len(p.containers) > 0 {
		st.Containers = make([]runtime.ContainerStatus, 0, len(p.containers))
	}
	for _, c := range slices.Backward(p.containers) {
		if listed(opts, c.reported()) {
			st.Containers = append(st.Containers, brief(w.idOf(c), c.spec.Name, c.sandbox.id, c.reported()))
		}
	}
	return st
}

func (w *World) sandboxStatuses(p *pod, opts runtime.ListOptions) []runtime.SandboxStatus {
	if len(p.sandboxes) == 0 {
		return nil
	}
	out := make([]runtime.SandboxStatus, 0, len(p.sandboxes))
	for _, s := range slices.Backward(p.sandboxes) {
		if opts.RunningOnly && !s.ready {
			continue
		}
		st := runtime.SandboxStatus{
			ID: s.id, Attempt: s.attempt, Ready: s.ready, HostNetwork: s.hostNetwork,
			NetworkKnown: true, CreatedAt: s.created,
		}
		if s.ip != "" {
			st.IPs = []string{s.ip}
		}
		out = append(out, st)
	}
	return out
}

func (w *World) containerStatus(c *container) runtime.ContainerStatus {
	st := runtime.ContainerStatus{
		ID: w.idOf(c), Name: c.spec.Name, Sandbox: c.sandbox.id, State: c.reported(),
		Hash: c.spec.Hash, RestartCount: c.spec.RestartCount,
		Image: c.spec.Image, ImageID: c.spec.Image, ImageRef: c.spec.Image,
		LogPath: c.spec.LogPath, CreatedAt: c.created, StartedAt: c.started, FinishedAt: c.exited,
		Annotations: maps.Clone(c.spec.Annotations), Resources: c.reportedResources(),
	}
	if c.state == runtime.StateExited {
		st.ExitCode, st.Reason, st.Message = c.code, c.reason, c.message
	}
	return st
}

func (w *World) idOf(c *container) runtime.ContainerID {
	return runtime.ContainerID{Runtime: w.opts.Name, ID: c.id}
}

// reported returns the state in List and PodStatus.
func (c *container) reported() runtime.State {
	if c.lost {
		return runtime.StateUnknown
	}
	return c.state
}

func listed(opts runtime.ListOptions, s runtime.State) bool {
	return !opts.RunningOnly || s == runtime.StateRunning || s == runtime.StateUnknown
}

func brief(id runtime.ContainerID, name string, sandbox runtime.SandboxID, state runtime.State) runtime.ContainerStatus {
	return runtime.ContainerStatus{ID: id, Name: name, Sandbox: sandbox, State: state}
}

// narrow reduces a full status to the fields of List.
func narrow(st *runtime.PodStatus, opts runtime.ListOptions) *runtime.PodStatus {
	st.Sandboxes = slices.DeleteFunc(st.Sandboxes, func(s runtime.SandboxStatus) bool { return opts.RunningOnly && !s.Ready })
	st.Containers = slices.DeleteFunc(st.Containers, func(c runtime.ContainerStatus) bool { return !listed(opts, c.State) })
	for i, c := range st.Containers {
		st.Containers[i] = brief(c.ID, c.Name, c.Sandbox, c.State)
	}
	return st
}
