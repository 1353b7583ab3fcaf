// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// WaitForAttachAndMount makes the volumes used by the pod's containers ready, and returns nil when
// all are ready. For a volume that is already set up, the call returns once the refresh of the
// content has succeeded or failed. After a failed refresh the last good content stays, Hooks
// reports the failure, and the refresh is retried.
//
// The call fails at once if a volume cannot be resolved, or if its plugin returns ErrTerminal. The
// other volumes are set up all the same. Otherwise the call waits until ctx ends or 2 min 3 s are
// over. The operations continue in the background until they succeed or the pod is gone. The error
// is a *MountError, or an *AttachLimitError at the node's attach limit.
//
// The Manager keeps the pod: do not write to it. Before Run, only Reconcile starts operations.
func (m *Manager) WaitForAttachAndMount(ctx context.Context, pod *v1.Pod) error {
	if pod == nil {
		return errors.New("volumemanager: WaitForAttachAndMount without a pod")
	}
	if m.own != nil {
		m.own.need(pod.UID)
	}
	ctx, cancel := m.limit(ctx)
	defer cancel()
	// Wait for Reconstruct: a recorded volume is used if Claims fails.
	if err := m.await(ctx, pod.UID, func() (bool, error) { return m.mu.rebuilt || m.mu.life != lifecycle.Running, nil }); err != nil {
		return &MountError{PodUID: pod.UID, Err: err}
	}
	wants, refused := m.resolve(ctx, pod, m.recorded(pod.UID))
	if len(wants)+len(refused) == 0 && !m.hasEntry(pod.UID) {
		return nil
	}
	if m.options.Pods.ShouldPodContainersBeTerminating(pod.UID) {
		return &MountError{PodUID: pod.UID, Unmounted: outerNames(wants, refused), Err: ErrPodTerminating}
	}
	waiting, more := m.desire(pod, wants)
	// PodChanged starts the operations, unless the pod has ended while its claims were resolved.
	m.PodChanged(pod.UID)
	if refused = append(refused, more...); len(refused) > 0 {
		return m.mountError(ctx, pod.UID, waiting, refused, nil)
	}
	err := m.await(ctx, pod.UID, func() (bool, error) { return m.ready(pod.UID, waiting) })
	if err == nil {
		return nil
	}
	return m.mountError(ctx, pod.UID, waiting, nil, err)
}

// limit adds limits.wait to ctx.
func (m *Manager) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	longest := m.options.limits.wait
	return context.WithTimeoutCause(ctx, longest, fmt.Errorf("%w after %s: %w", errTimeout, longest, context.DeadlineExceeded))
}

// await waits until done returns true or an error. done is called at each change of the pod's
// volumes, with the lock held.
func (m *Manager) await(ctx context.Context, uid types.UID, done func() (bool, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod(uid).waits++
	defer func() {
		m.pod(uid).waits--
		m.leave(uid)
	}()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		p := m.pod(uid)
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		m.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-m.stopped:
			err = ErrStopped
		}
		m.mu.Lock()
		if err != nil {
			// A change at the same moment counts.
			if ok, _ := done(); ok {
				return nil
			}
			return err
		}
	}
}

// leave deletes the entry of a pod without volumes and waiting calls. The lock is held.
func (m *Manager) leave(uid types.UID) {
	if p, ok := m.mu.pods[uid]; ok && p.waits == 0 && len(p.volumes) == 0 {
		delete(m.mu.pods, uid)
	}
}

// ready reports whether all volumes are mounted and have the requested refresh. The error is a
// terminal failure of an operation, or ErrPodTerminating. The lock is held.
func (m *Manager) ready(uid types.UID, waiting []awaited) (bool, error) {
	all := true
	for _, a := range waiting {
		v, r := m.row(a.name, uid)
		if r == nil || r.desire == DesireGone {
			return false, ErrPodTerminating
		}
		switch {
		case r.state == StateMounted && r.tried >= a.refresh:
			continue
		case r.terminating && r.busy == nil && v.busy == nil:
			return false, ErrPodTerminating
		case r.state != StateMounted && (r.failure.terminal || v.failure.terminal):
			return false, errors.Join(r.failure.err, v.failure.err)
		}
		all = false
	}
	return all, nil
}

// row returns the volume and its row of the pod, nil if there is none. The lock is held.
func (m *Manager) row(name v1.UniqueVolumeName, uid types.UID) (*volume, *row) {
	v, ok := m.mu.volumes[name]
	if !ok {
		return nil, nil
	}
	return v, v.row(uid)
}

// mountError returns the error with the missing volumes and the reasons.
func (m *Manager) mountError(ctx context.Context, uid types.UID, waiting []awaited, refused []refusal, cause error) error {
	e := &MountError{PodUID: uid}
	reasons := []error{cause}
	for _, r := range refused {
		e.Unmounted = append(e.Unmounted, r.outer)
		e.Unprocessed = append(e.Unprocessed, r.outer)
		reasons = append(reasons, r.err)
	}
	var unattached []limited
	m.mu.Lock()
	for _, a := range waiting {
		v, r := m.row(a.name, uid)
		if r != nil && r.state == StateMounted {
			continue
		}
		e.Unmounted = append(e.Unmounted, a.outer...)
		if r == nil {
			continue
		}
		if v.attachable && !v.attached {
			e.Unattached = append(e.Unattached, a.outer...)
			if limiter, ok := v.plugin.(AttachLimiter); ok {
				unattached = append(unattached, limited{limiter, v.spec})
			}
		}
		reasons = append(reasons, v.why(uid, r)...)
	}
	m.mu.Unlock()
	slices.Sort(e.Unmounted)
	slices.Sort(e.Unattached)
	slices.Sort(e.Unprocessed)
	e.Err = joinDistinct(reasons)
	if len(e.Unmounted) == 0 && !errors.Is(cause, ErrPodTerminating) {
		return nil // only a refresh was late; the last good content is mounted
	}
	if exhausted(ctx, unattached) {
		return &AttachLimitError{MountError: *e}
	}
	return e
}

// why returns the reasons why v is not mounted for the pod.
func (v *volume) why(uid types.UID, r *row) []error {
	reasons := []error{v.blocked(uid, r)}
	for _, f := range []failure{r.failure, v.failure} {
		if f.err != nil && f.kind.sets() {
			reasons = append(reasons, fmt.Errorf("volume %s: %w", r.place.Inner, f.err))
		}
	}
	return append(reasons, v.underWay(r)...)
}

// underWay returns an error for each operation under way for r, with the start time, because the
// operation may hang.
func (v *volume) underWay(r *row) (reasons []error) {
	for _, o := range []*operation{r.busy, v.busy} {
		if o != nil && !o.started.IsZero() {
			reasons = append(reasons, fmt.Errorf("volume %s: %s is under way since %s", r.place.Inner, o.kind, o.started.Format(time.RFC3339)))
		}
	}
	return reasons
}

// joinDistinct joins errs. Of errors with the same text, only the first is kept.
func joinDistinct(errs []error) error {
	var distinct []error
	seen := map[string]bool{}
	for _, err := range errs {
		if err == nil || seen[err.Error()] {
			continue
		}
		seen[err.Error()] = true
		distinct = append(distinct, err)
	}
	if len(distinct) == 1 {
		return distinct[0]
	}
	return errors.Join(distinct...)
}

// limited is an unattached volume, with the plugin that knows the attach limit.
type limited struct {
	limiter AttachLimiter
	spec    Spec
}

// exhausted asks the plugins whether the attach limit of the node is reached. The ctx of the wait
// has ended, so the question has its own timeout.
func exhausted(ctx context.Context, volumes []limited) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, v := range volumes {
		if full, err := v.limiter.Exhausted(ctx, v.spec); err == nil && full {
			return true
		}
	}
	return false
}

// outerNames returns the pod's names of all volumes, sorted.
func outerNames(wants []*want, refused []refusal) []string {
	var names []string
	for _, w := range wants {
		names = append(names, w.outer...)
	}
	for _, r := range refused {
		names = append(names, r.outer)
	}
	slices.Sort(names)
	return names
}

// hasEntry reports whether the pod has an entry, because of volumes or waiting calls.
func (m *Manager) hasEntry(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.mu.pods[uid]
	return ok
}
