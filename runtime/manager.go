// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"cmp"
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

// Options configures a Manager.
type Options struct {
	// Runtime runs the containers. Required.
	Runtime Runtime
	// Generator computes the specs of containers and sandboxes. Required.
	Generator Generator

	// Events receives events about pods. Defaults to none.
	Events EventRecorder
	// Hooks runs postStart and preStop handlers. Defaults to exec, httpGet and sleep handlers as in
	// the kubelet 1.36. Only the context of a call limits the time of a handler, and connections
	// are not kept.
	Hooks HookRunner
	// Backoff is the crash-loop policy. Defaults to the kubelet's.
	Backoff Backoff
	// MaxConcurrentStarts is the maximum number of sandboxes and containers made at the same time,
	// over all pods. Kills and hooks do not count and do not wait. Containers of pods with a
	// sandbox start before new sandboxes. Defaults to four per core (GOMAXPROCS): a start mostly
	// waits, but without a bound all starts delay one another.
	MaxConcurrentStarts int
	// MaxConcurrentPulls is the maximum number of different images pulled at the same time, over all
	// pods. Pods that wait for the same image share its pull. math.MaxInt means no maximum. Defaults
	// to four. The kubelet's default is one.
	MaxConcurrentPulls int
	// Keyring finds credentials for pulling images. Defaults to none.
	Keyring Keyring
	// PullRecords decides which pods may use an image that is on the node. Defaults to nil: every pod may
	// use every image, as with the kubelet's policy NeverVerify.
	PullRecords PullRecords
	// Logger receives messages that are in no result. Defaults to none.
	Logger *zap.Logger
}

// Manager carries out plans. Concurrent calls for different pods are safe. The caller makes the
// calls for each pod one after the other, as package podworkers does. No goroutine outlives a call.
type Manager struct {
	rt       *apart
	gen      Generator
	events   EventRecorder
	hooks    HookRunner
	backoff  Backoff
	log      *zap.Logger
	checkers []Checker
	slots    *slots       // starts in progress, over all pods
	images   *imageKeeper // nil if the runtime does not implement Images
	resizer  *resizer     // nil if the runtime does not implement Updater
	auditor  Auditor      // nil if the runtime does not implement Auditor

	mu struct {
		sync.Mutex
		// removed has, per pod and container name, the newest instance whose record this manager
		// removed although the pod continues. Restart counts and back-off continue from the
		// instance. An entry is deleted when a new instance exists.
		removed map[types.UID]map[string]ContainerStatus
		// seen has, per pod and container name, the last status of regular containers that must not
		// run again if their records are removed. An entry is deleted when a new instance exists.
		seen map[types.UID]map[string]ContainerStatus
		// failures has, per pod, the number of failed calls in a row.
		failures map[types.UID]int
	}
}

// New validates opts and returns a Manager. New makes no call to the runtime.
func New(opts Options) (*Manager, error) {
	switch {
	case opts.Runtime == nil:
		return nil, errors.New("runtime: Options.Runtime is required")
	case opts.Generator == nil:
		return nil, errors.New("runtime: Options.Generator is required")
	case opts.MaxConcurrentStarts < 0:
		return nil, fmt.Errorf("runtime: Options.MaxConcurrentStarts is %d: want 0 or more", opts.MaxConcurrentStarts)
	case opts.MaxConcurrentPulls < 0:
		return nil, fmt.Errorf("runtime: Options.MaxConcurrentPulls is %d: want 0 or more", opts.MaxConcurrentPulls)
	case opts.Backoff.Initial < 0 || opts.Backoff.Max < 0 || opts.Backoff.Reset < 0:
		return nil, errors.New("runtime: Options.Backoff has a negative duration")
	}
	m := &Manager{
		rt:      keepApart(opts.Runtime), // abilities are looked up on opts.Runtime
		gen:     opts.Generator,
		events:  opts.Events,
		hooks:   opts.Hooks,
		backoff: opts.Backoff.withDefaults(),
		log:     cmp.Or(opts.Logger, zap.NewNop()),
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
	if images, ok := opts.Runtime.(Images); ok {
		m.images = &imageKeeper{m: m, images: images, keyring: opts.Keyring, records: opts.PullRecords, flights: newFlights(cmp.Or(opts.MaxConcurrentPulls, defaultConcurrentPulls)), backoff: newPullBackoff()}
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

// RemovePod removes every record of an ended pod: the containers, the sandboxes, and the manager's
// own facts about the pod. Logs stay. While a container of the pod may be running, RemovePod
// removes nothing and returns an error with the container's name.
//
// RemovePod removes the oldest record of a container first, and the containers before the
// sandboxes. After an interruption, the remaining records therefore include the newest instance
// with its restart count and its exit.
func (m *Manager) RemovePod(ctx context.Context, uid types.UID) error {
	status, err := m.rt.PodStatus(ctx, uid)
	if err != nil {
		return fmt.Errorf("remove pod %s: read its status: %w", uid, err)
	}
	return m.RemoveObserved(ctx, status)
}

// RemoveObserved is RemovePod for a caller with the status of the ended pod, such as the result of
// KillPod. Nothing must have changed since.
func (m *Manager) RemoveObserved(ctx context.Context, status *PodStatus) error {
	uid := status.UID
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
			break // removing the sandbox would remove its containers
		}
		if err := gone(m.rt.RemoveSandbox(ctx, s.ID)); err != nil {
			errs = append(errs, fmt.Errorf("remove pod %s: sandbox %s: %w", uid, s.ID, err))
		}
	}
	m.forgetPod(uid)
	return errors.Join(errs...)
}

// forgetPod deletes the manager's facts about an ended pod.
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

// see records the regular containers of a pod in status.
func (m *Manager) see(pod *v1.Pod, status *PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		newest := status.Latest(c.Name)
		if newest == nil || newest.State == StateCreated {
			continue // keep the status seen last
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
}

// unsee deletes the records made by see for a pod.
func (m *Manager) unsee(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.seen, uid)
}

// finished returns the function PlanInput.Finished. The function combines the containers seen by
// this Manager, pod.Status, and the caller's function. If this Manager removed a record in order to
// start the container again, the container is not finished.
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

// remember keeps the facts of a removed record, unless a newer instance is known.
func (m *Manager) remember(uid types.UID, c ContainerStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byName := m.mu.removed[uid]
	if byName == nil {
		byName = make(map[string]ContainerStatus)
		m.mu.removed[uid] = byName
	}
	if kept, ok := byName[c.Name]; !ok || overtakes(&c, &kept) || !c.CreatedAt.Before(kept.CreatedAt) && !overtakes(&kept, &c) {
		byName[c.Name] = c
	}
}

// recall returns the instance kept by remember, or nil.
func (m *Manager) recall(uid types.UID, name string) *ContainerStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.mu.removed[uid][name]; ok {
		return &c
	}
	return nil
}

// forget deletes the instance kept by remember for a container.
func (m *Manager) forget(uid types.UID, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byName := m.mu.removed[uid]
	delete(byName, name)
	if len(byName) == 0 {
		delete(m.mu.removed, uid)
	}
}

// gone treats ErrNotFound as success of a stop or removal.
func gone(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// podName returns the pod's name for messages.
func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// steps collects the steps of a goroutine of a call.
type steps struct{ list []Step }

func (s *steps) done(action StepAction, target string) {
	s.list = append(s.list, Step{Action: action, Target: target})
}

// fail records a failure and reports whether the failure counts. After the end of ctx no failure
// counts, because the interruption may be the cause.
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

// broke reports whether a step failed. A step that only waits for a known time did not fail:
// another container that was stopped or started in the same pass does not wait for that time.
func (s *steps) broke() bool {
	return slices.ContainsFunc(s.list, func(one Step) bool { return one.Err != nil && one.Err.RetryAt.IsZero() })
}

// hadEffect reports whether a step succeeded.
func (s *steps) hadEffect() bool {
	return slices.ContainsFunc(s.list, func(one Step) bool { return one.Err == nil })
}

// left returns the remaining part of budget since start, at least 0.
func left(start time.Time, budget time.Duration) time.Duration {
	return max(budget-time.Since(start), 0)
}
