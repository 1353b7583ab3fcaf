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

// ownStarts separates events caused by the agent's own starts from other events. The zero value is
// ready.
type ownStarts struct {
	mu struct {
		sync.Mutex
		pods       map[types.UID]ownPod
		containers map[string]types.UID // made, and not started yet
	}
}

type ownPod struct {
	calls int       // under way
	ended time.Time // end of the last call
}

// While ownMemory or more pods are remembered, a pod is dropped ownPatience after its last call.
// Its events have arrived by then.
const (
	ownMemory   = 64
	ownPatience = time.Minute
)

// begin notes a call making or starting a sandbox or container of a pod, until end.
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

// ownerOf returns and forgets the pod of a container made here and not started yet; "" for other
// containers.
func (o *ownStarts) ownerOf(id string) types.UID {
	o.mu.Lock()
	defer o.mu.Unlock()
	uid := o.mu.containers[id]
	delete(o.mu.containers, id)
	return uid
}

// explain reports whether an event only confirms one of the agent's own calls.
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
	return w.client.RunSandbox(ctx, spec)
}

// CreateContainer implements runtime.Runtime.
func (w *watchingRuntime) CreateContainer(ctx context.Context, sandbox runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	if spec.Pod == nil {
		return w.client.CreateContainer(ctx, sandbox, spec)
	}
	defer w.own.begin(spec.Pod.UID)()
	id, err := w.client.CreateContainer(ctx, sandbox, spec)
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
	return w.client.StartContainer(ctx, id)
}

// RemoveContainer implements runtime.Runtime.
func (w *watchingRuntime) RemoveContainer(ctx context.Context, id runtime.ContainerID) error {
	w.own.ownerOf(id.ID)
	return w.client.RemoveContainer(ctx, id)
}
