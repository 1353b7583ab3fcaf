// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// slotPatience is the time during which an operation counts in limits.parallel.
const slotPatience = time.Second

// errPodGone is the cause that cancels the SetUp for a pod that is gone.
var errPodGone = errors.New("the pod is gone")

// Run finds the mounted volumes (Reconstruct), then starts operations as soon as they are due,
// until ctx ends. Then Run cancels the operations under way and returns nil when they have ended.
// The end of Run unmounts nothing. A second call returns ErrAlreadyRun.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	again := m.mu.life != lifecycle.New
	m.mu.life = max(m.mu.life, lifecycle.Running)
	m.mu.Unlock()
	if again {
		return ErrAlreadyRun
	}
	if err := m.Reconstruct(ctx); err != nil && ctx.Err() == nil {
		m.options.Logger.Error("Not all volumes of the last run were found again", zap.Error(err))
	}
	m.open(ctx)
	m.Resync()
	m.resyncForever(ctx)
	m.close()
	m.pending.Wait()
	return nil
}

// open starts every due operation, and permits dispatch to start operations.
func (m *Manager) open(ctx context.Context) {
	m.mu.Lock()
	defer m.unlock()
	m.mu.start = func(o *operation) {
		// The operation must be cancellable as soon as the lock is released.
		opCtx := m.arrange(ctx, o)
		m.pending.Go(func() { m.carryOut(opCtx, o) })
	}
	for _, v := range m.mu.volumes {
		m.dispatch(v)
	}
}

// close prevents new operations and wakes the waiting calls.
func (m *Manager) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.life = lifecycle.Stopped
	m.mu.start = nil
	for name := range m.mu.timers {
		m.arm(name, time.Time{})
	}
	close(m.stopped)
}

func (m *Manager) resyncForever(ctx context.Context) {
	tick := time.Tick(m.options.limits.resync)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			m.Resync()
		}
	}
}

// arrange returns a context for o, which o.cancel cancels. The lock is held.
func (m *Manager) arrange(ctx context.Context, o *operation) context.Context {
	ctx, o.cancel = context.WithCancelCause(ctx)
	return ctx
}

// carryOut runs o, records the outcome and starts the operations that have become due. The error is
// the error of o.
func (m *Manager) carryOut(ctx context.Context, o *operation) error {
	defer o.cancel(nil)
	release, err := m.takeSlot(ctx)
	var out outcome
	if err != nil {
		out.err = Transient(err)
	} else {
		limited, cancel := context.WithTimeout(ctx, m.execute.limit(o))
		m.mu.Lock()
		o.started = time.Now()
		o.deadline, _ = limited.Deadline()
		m.mu.Unlock()
		out = m.execute.execute(limited, o)
		cancel()
		release()
		if out.err != nil && errors.Is(context.Cause(ctx), errPodGone) {
			out.err = keepClass(out.err, errPodGone)
		}
	}
	end := OperationEnd{Operation: o.describe(), Pod: o.pod, Requested: o.requested, Err: out.err, Ended: time.Now()}
	m.settle(o, out, end.Ended)
	m.report(end)
	return out.err
}

// takeSlot waits for a free slot. The slot is freed after slotPatience, or
// earlier by release; the operation may take longer.
func (m *Manager) takeSlot(ctx context.Context) (release func(), err error) {
	select {
	case m.slots <- struct{}{}:
	default:
		select {
		case m.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	leave := sync.OnceFunc(func() { <-m.slots })
	m.pending.Add(1)
	timer := time.AfterFunc(slotPatience, func() { leave(); m.pending.Done() })
	return func() {
		leave()
		if timer.Stop() {
			m.pending.Done()
		}
	}, nil
}

// settle records the outcome of o.
func (m *Manager) settle(o *operation, out outcome, now time.Time) {
	m.mu.Lock()
	defer m.unlock()
	v := m.mu.volumes[o.volume]
	v.settle(o, out, now)
	for _, r := range v.rows {
		m.wakeWaiters(r.place.PodUID)
	}
	m.dispatch(v)
}

// report passes a finished operation to the hook and logs a failure.
func (m *Manager) report(end OperationEnd) {
	if m.options.Hooks.OperationEnded != nil {
		m.options.Hooks.OperationEnded(end)
	}
	if end.Err == nil || errors.Is(end.Err, errPodGone) {
		return
	}
	var name string
	if end.Pod != nil {
		name = end.Pod.Namespace + "/" + end.Pod.Name
	}
	m.options.Logger.Warn("Volume operation failed", zap.Stringer("operation", end.Kind),
		zap.String("volume", string(end.Volume)), zap.String("pod", name), zap.String("podUID", string(end.PodUID)),
		zap.Int("attempt", end.Attempt), zap.Error(end.Err))
}

// wakeTimer dispatches a volume at the end of a back-off, or has done so.
type wakeTimer struct {
	*time.Timer
	at time.Time
}

// arm sets the only timer of a volume; the zero time stops the timer. The lock is held.
func (m *Manager) arm(name v1.UniqueVolumeName, at time.Time) {
	w, ok := m.mu.timers[name]
	if w.at.Equal(at) {
		return
	}
	if ok && w.Stop() {
		m.pending.Done()
	}
	if at.IsZero() {
		delete(m.mu.timers, name)
		return
	}
	m.pending.Add(1)
	m.mu.timers[name] = wakeTimer{time.AfterFunc(time.Until(at), func() { m.wake(name) }), at}
}

// wake is the function of a timer: it dispatches the volume.
func (m *Manager) wake(name v1.UniqueVolumeName) {
	defer m.pending.Done()
	m.mu.Lock()
	defer m.unlock()
	if v, ok := m.mu.volumes[name]; ok {
		m.dispatch(v)
	}
}
