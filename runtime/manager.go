// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"
)

// Options configure a Manager.
type Options struct {
	// Runtime does the work. Required.
	Runtime Runtime
	// Generator says what a pod means on this node. Required.
	Generator Generator

	// Events receives events about pods. Defaults to none.
	Events EventRecorder
	// Hooks runs postStart and preStop handlers. Defaults to exec, httpGet and sleep handlers as in
	// the kubelet 1.36: a handler has no time limit but its context's, and keeps no connection.
	Hooks HookRunner
	// Backoff is the crash-loop policy. Defaults to the kubelet's.
	Backoff Backoff
	// MaxConcurrentStarts bounds, over all pods, how many sandboxes and
	// containers are being made at once; kills never wait for it, nor do hooks
	// count. Defaults to four per core (GOMAXPROCS): a start waits more than it
	// computes, and with all at once everyone waits for everyone. Containers of
	// pods that have begun come before new sandboxes.
	MaxConcurrentStarts int
	// Keyring finds credentials for pulling images. Defaults to none.
	Keyring Keyring
	// Logger receives what nobody else is told. Defaults to none.
	Logger *zap.Logger
}

// Manager carries out plans. It is safe for concurrent use by different pods;
// calls for one pod are the caller's to keep apart (package podworkers does).
// It starts no goroutine that outlives a call.
type Manager struct {
	rt       Runtime
	gen      Generator
	events   EventRecorder
	hooks    HookRunner
	backoff  Backoff
	log      *zap.Logger
	checkers []Checker
	slots    *slots       // starts under way, over all pods
	images   *imageKeeper // nil if the runtime knows no images
	resizer  *resizer     // nil if the runtime cannot resize
	auditor  Auditor      // nil if the runtime is none

	mu struct {
		sync.Mutex
		// removed holds, per pod and container name, the newest instance whose
		// record this manager removed while the pod lives on, so that restart
		// counts and back-off go on. Entries go when a new instance exists.
		removed map[types.UID]map[string]ContainerStatus
		// seen holds, per pod and container name, how regular containers were that do not
		// run again should their records be removed. Entries go with a new instance.
		seen map[types.UID]map[string]ContainerStatus
		// failures counts, per pod, the calls in a row that failed.
		failures map[types.UID]int
	}
}

// New validates opts and returns a Manager. It calls nothing.
func New(opts Options) (*Manager, error) {
	switch {
	case opts.Runtime == nil:
		return nil, errors.New("runtime: Options.Runtime is required")
	case opts.Generator == nil:
		return nil, errors.New("runtime: Options.Generator is required")
	case opts.MaxConcurrentStarts < 0:
		return nil, fmt.Errorf("runtime: Options.MaxConcurrentStarts is %d: want 0 or more", opts.MaxConcurrentStarts)
	case opts.Backoff.Initial < 0 || opts.Backoff.Max < 0 || opts.Backoff.Reset < 0:
		return nil, errors.New("runtime: Options.Backoff has a negative duration")
	}
	m := &Manager{
		rt:      keepApart(opts.Runtime), // its abilities are found on opts.Runtime
		gen:     opts.Generator,
		events:  opts.Events,
		hooks:   opts.Hooks,
		backoff: opts.Backoff.withDefaults(),
		log:     opts.Logger,
		resizer: newResizer(opts.Runtime),
	}
	if m.hooks == nil {
		m.hooks = newHooks(opts.Runtime, opts.Events)
	}
	for _, part := range []any{opts.Runtime, m.gen, m.hooks} {
		if c, ok := part.(Checker); ok {
			m.checkers = append(m.checkers, c)
		}
	}
	m.auditor, _ = opts.Runtime.(Auditor)
	if m.log == nil {
		m.log = zap.NewNop()
	}
	if images, ok := opts.Runtime.(Images); ok {
		m.images = &imageKeeper{m: m, images: images, keyring: opts.Keyring, flights: newFlights(maxParallelPulls), backoff: newPullBackoff()}
	}
	starts := opts.MaxConcurrentStarts
	if starts == 0 {
		starts = 4 * goruntime.GOMAXPROCS(0)
	}
	m.slots = newSlots(starts)
	m.mu.removed = make(map[types.UID]map[string]ContainerStatus)
	m.mu.seen = make(map[types.UID]map[string]ContainerStatus)
	m.mu.failures = make(map[types.UID]int)
	return m, nil
}

// RemovePod removes every record of a pod that is over: containers, then
// sandboxes, and what this manager remembers of it. Logs stay. It refuses, with
// an error naming a container, while anything of the pod may be running.
//
// Of a container the oldest record goes first, and of a pod the containers before
// the sandboxes: whatever interrupts it, what is left tells of the newest instance,
// with its restart count and its end.
func (m *Manager) RemovePod(ctx context.Context, uid types.UID) error {
	status, err := m.rt.PodStatus(ctx, uid)
	if err != nil {
		return fmt.Errorf("remove pod %s: read its status: %w", uid, err)
	}
	if running := status.Running(); len(running) > 0 {
		return fmt.Errorf("remove pod %s: container %s is %s", uid, running[0].Name, running[0].State)
	}
	var errs []error
	stays := make(map[string]bool)
	for _, c := range slices.Backward(status.Containers) {
		if stays[c.Name] {
			continue
		}
		if err := gone(m.rt.RemoveContainer(ctx, c.ID)); err != nil {
			errs = append(errs, fmt.Errorf("remove pod %s: container %s: %w", uid, c.Name, err))
			stays[c.Name] = true
		}
	}
	for _, s := range slices.Backward(status.Sandboxes) {
		if len(stays) > 0 {
			break // it would take its containers along
		}
		if err := gone(m.rt.RemoveSandbox(ctx, s.ID)); err != nil {
			errs = append(errs, fmt.Errorf("remove pod %s: sandbox %s: %w", uid, s.ID, err))
		}
	}
	m.forgetPod(uid)
	return errors.Join(errs...)
}

// forgetPod drops what is remembered of a pod that is over.
func (m *Manager) forgetPod(uid types.UID) {
	m.mu.Lock()
	delete(m.mu.removed, uid)
	delete(m.mu.seen, uid)
	delete(m.mu.failures, uid)
	m.mu.Unlock()
	if m.images != nil {
		m.images.forget(uid)
	}
	if m.resizer != nil {
		m.resizer.forget(uid)
	}
}

// see keeps how regular containers of a pod are by its status.
func (m *Manager) see(pod *v1.Pod, status *PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		newest := status.Latest(c.Name)
		if newest == nil || newest.State == StateCreated {
			continue // what was seen last counts
		}
		seen, counts := lastSeen(pod, c, newest)
		if !counts {
			delete(m.mu.seen[pod.UID], c.Name)
			continue
		}
		if m.mu.seen[pod.UID] == nil {
			m.mu.seen[pod.UID] = make(map[string]ContainerStatus)
		}
		seen.Annotations = nil
		m.mu.seen[pod.UID][c.Name] = seen
	}
	if len(m.mu.seen[pod.UID]) == 0 {
		delete(m.mu.seen, pod.UID)
	}
}

// unsee drops what see kept of a pod.
func (m *Manager) unsee(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.seen, uid)
}

// finished answers PlanInput.Finished: by what this Manager has seen, by pod.Status, and by
// what the caller knows. A record that this Manager removed to start its container anew
// says nothing of it.
func (m *Manager) finished(req *SyncRequest) func(name string, made *ContainerStatus) bool {
	return func(name string, made *ContainerStatus) bool {
		if m.recall(req.Pod.UID, name) != nil {
			return false
		}
		m.mu.Lock()
		seen, ok := m.mu.seen[req.Pod.UID][name]
		m.mu.Unlock()
		if ref, found := Find(req.Pod, name); ok && found && finishedBy(req.Pod, ref.Container(req.Pod), &seen, made) {
			return true
		}
		return Finished(req.Pod, &req.Pod.Status, name, made) || req.Finished != nil && req.Finished(name, made)
	}
}

// remember keeps what a removed record knew, unless something newer is known.
func (m *Manager) remember(uid types.UID, c ContainerStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byName := m.mu.removed[uid]
	if byName == nil {
		byName = make(map[string]ContainerStatus)
		m.mu.removed[uid] = byName
	}
	if old, ok := byName[c.Name]; !ok || !c.CreatedAt.Before(old.CreatedAt) {
		byName[c.Name] = c
	}
}

// recall returns what remember kept, or nil.
func (m *Manager) recall(uid types.UID, name string) *ContainerStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.mu.removed[uid][name]; ok {
		return &c
	}
	return nil
}

// forget drops what remember kept of one container.
func (m *Manager) forget(uid types.UID, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byName := m.mu.removed[uid]
	delete(byName, name)
	if len(byName) == 0 {
		delete(m.mu.removed, uid)
	}
}

// gone treats ErrNotFound as success: what is to be stopped or removed is.
func gone(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// podName is how messages name a pod.
func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// steps collects what one goroutine of a call did.
type steps struct{ list []Step }

func (s *steps) done(action StepAction, target string) {
	s.list = append(s.list, Step{Action: action, Target: target})
}

// fail notes a failure, unless ctx has ended: then whatever went wrong is the
// interruption's doing. It reports whether the failure counts.
func (s *steps) fail(ctx context.Context, e *StepError) bool {
	if ctx.Err() != nil {
		return false
	}
	s.list = append(s.list, Step{Action: e.Action, Target: e.Target, Err: e})
	return true
}

func (s *steps) failed() bool {
	for i := range s.list {
		if s.list[i].Err != nil {
			return true
		}
	}
	return false
}

// left is how much of a budget is left after start, never negative.
func left(start time.Time, budget time.Duration) time.Duration {
	return max(budget-time.Since(start), 0)
}
