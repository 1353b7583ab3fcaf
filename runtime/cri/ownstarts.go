// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// ownStarts tells events about what the agent itself starts from those about
// what happens otherwise. The zero value is ready.
type ownStarts struct {
	mu struct {
		sync.Mutex
		pods       map[types.UID]ownPod
		containers map[string]types.UID // made, and not started yet
	}
}

type ownPod struct {
	calls int       // under way
	ended time.Time // the last of them
}

// ownMemory is how many pods are remembered before those are dropped whose
// events must have come by now, which is after ownPatience.
const (
	ownMemory   = 64
	ownPatience = time.Minute
)

// begin notes a call that makes or starts something of a pod, until end.
func (o *ownStarts) begin(uid types.UID) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.pods == nil {
		o.mu.pods, o.mu.containers = make(map[types.UID]ownPod), make(map[string]types.UID)
	}
	if now := time.Now(); len(o.mu.pods) >= ownMemory {
		maps.DeleteFunc(o.mu.pods, func(_ types.UID, p ownPod) bool { return p.calls == 0 && now.Sub(p.ended) > ownPatience })
	}
	p := o.mu.pods[uid]
	p.calls++
	o.mu.pods[uid] = p
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		p := o.mu.pods[uid]
		p.calls--
		p.ended = time.Now()
		o.mu.pods[uid] = p
	}
}

func (o *ownStarts) made(id string, uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.containers[id] = uid
}

// ownerOf returns whose container it is, once, if it was made here.
func (o *ownStarts) ownerOf(id string) types.UID {
	o.mu.Lock()
	defer o.mu.Unlock()
	uid := o.mu.containers[id]
	delete(o.mu.containers, id)
	return uid
}

// explain reports whether an event says no more than that a call of the agent's
// did what it should.
func (o *ownStarts) explain(uid types.UID, event *api.ContainerEventResponse) bool {
	switch event.GetContainerEventType() {
	case api.ContainerEventType_CONTAINER_CREATED_EVENT, api.ContainerEventType_CONTAINER_STARTED_EVENT:
	default:
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p, ok := o.mu.pods[uid]
	return ok && (p.calls > 0 || event.GetCreatedAt() > 0 && !time.Unix(0, event.GetCreatedAt()).After(p.ended))
}

// RunSandbox implements runtime.Runtime.
func (w *watchingRuntime) RunSandbox(ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
	defer w.own.begin(spec.UID)()
	return w.Runtime.RunSandbox(ctx, spec)
}

// CreateContainer implements runtime.Runtime.
func (w *watchingRuntime) CreateContainer(ctx context.Context, sandbox runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	if spec.Pod == nil {
		return w.Runtime.CreateContainer(ctx, sandbox, spec)
	}
	defer w.own.begin(spec.Pod.UID)()
	id, err := w.Runtime.CreateContainer(ctx, sandbox, spec)
	if err == nil {
		w.own.made(id.ID, spec.Pod.UID)
	}
	return id, err
}

// StartContainer implements runtime.Runtime.
func (w *watchingRuntime) StartContainer(ctx context.Context, id runtime.ContainerID) error {
	if uid := w.own.ownerOf(id.ID); uid != "" {
		defer w.own.begin(uid)()
	}
	return w.Runtime.StartContainer(ctx, id)
}

// RemoveContainer implements runtime.Runtime.
func (w *watchingRuntime) RemoveContainer(ctx context.Context, id runtime.ContainerID) error {
	w.own.ownerOf(id.ID)
	return w.Runtime.RemoveContainer(ctx, id)
}
