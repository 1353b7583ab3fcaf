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
)

// WaitForAttachAndMount makes the volumes that the pod's containers use ready, and
// returns nil when they all are. For volumes that are set up already it returns
// once their content has been renewed or that has failed: then the last good
// content is kept, the failure is told to Hooks, and tried again.
//
// It fails at once for a volume of which it is not known what it is, or whose
// plugin says that it is no use to go on (ErrTerminal); the other volumes are
// set up all the same. Else it waits until ctx ends or Options.WaitTimeout is over;
// the operations go on in the background until they succeed or the pod is gone.
// The error is a *MountError or *AttachLimitError.
//
// The pod is kept and must not be written to. Before Run, operations begin only in
// Reconcile.
func (m *Manager) WaitForAttachAndMount(ctx context.Context, pod *v1.Pod) error {
	if pod == nil {
		return errors.New("volumemanager: WaitForAttachAndMount without a pod")
	}
	ctx, cancel := m.limit(ctx)
	defer cancel()
	// What is recorded of the pod's volumes spares asking Claims.
	if err := m.await(ctx, pod.UID, func() (bool, error) { return m.mu.rebuilt || m.mu.life != lifeRunning, nil }); err != nil {
		return &MountError{PodUID: pod.UID, Err: err}
	}
	wants, refused := m.resolve(ctx, pod, m.recorded(pod.UID))
	if len(wants)+len(refused) == 0 && !m.knows(pod.UID) {
		return nil
	}
	if m.options.Pods.ShouldPodContainersBeTerminating(pod.UID) {
		return &MountError{PodUID: pod.UID, Unmounted: outerNames(wants, refused), Err: ErrPodTerminating}
	}
	waiting, more := m.desire(pod, wants)
	// The pod may have gone while its claims were resolved.
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

// limit adds Options.WaitTimeout to ctx.
func (m *Manager) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if m.options.WaitTimeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, m.options.WaitTimeout,
		fmt.Errorf("%w after %s: %w", errTimeout, m.options.WaitTimeout, context.DeadlineExceeded))
}

// await returns nil when done says so, looking at each change of the pod's
// volumes. done is called with the lock held.
func (m *Manager) await(ctx context.Context, uid types.UID, done func() (bool, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod(uid).waits++
	defer func() {
		if p := m.pod(uid); p.waits > 0 {
			p.waits--
		}
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
			// What happened at the same moment counts.
			if ok, failed := done(); ok && failed == nil {
				return nil
			}
			return err
		}
	}
}

// leave forgets a pod without volumes that nobody waits for. The lock is held.
func (m *Manager) leave(uid types.UID) {
	if p, ok := m.mu.pods[uid]; ok && p.waits == 0 && len(p.volumes) == 0 {
		delete(m.mu.pods, uid)
	}
}

// ready reports whether all volumes are mounted and as fresh as was asked for. The
// error is that of an operation that is no use to repeat. The lock is held.
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

// row returns a row, nil if there is none. The lock is held.
func (m *Manager) row(name v1.UniqueVolumeName, uid types.UID) (*volume, *row) {
	v, ok := m.mu.volumes[name]
	if !ok {
		return nil, nil
	}
	return v, v.rows[uid]
}

// mountError says what is missing, and why.
func (m *Manager) mountError(ctx context.Context, uid types.UID, waiting []awaited, refused []refusal, cause error) error {
	e := &MountError{PodUID: uid}
	reasons := []error{cause}
	for _, r := range refused {
		e.Unmounted = append(e.Unmounted, r.outer)
		e.Unprocessed = append(e.Unprocessed, r.outer)
		reasons = append(reasons, r.err)
	}
	var unattached []*volume
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
			unattached = append(unattached, v)
		}
		reasons = append(reasons, v.why(uid, r)...)
	}
	m.mu.Unlock()
	slices.Sort(e.Unmounted)
	slices.Sort(e.Unattached)
	slices.Sort(e.Unprocessed)
	e.Err = joinDistinct(reasons)
	if len(e.Unmounted) == 0 && !errors.Is(cause, ErrPodTerminating) {
		return nil // only a refresh was late; the content is the last good one
	}
	if len(unattached) > 0 && exhausted(ctx, unattached) {
		return &AttachLimitError{MountError: *e}
	}
	return e
}

// why returns what keeps v from being mounted for the pod.
func (v *volume) why(uid types.UID, r *row) []error {
	reasons := []error{v.blocked(uid, r)}
	if r.failure.err != nil && r.failure.kind.sets() {
		reasons = append(reasons, fmt.Errorf("volume %s: %w", r.place.Inner, r.failure.err))
	}
	if v.failure.err != nil && v.failure.kind.sets() {
		reasons = append(reasons, fmt.Errorf("volume %s: %w", r.place.Inner, v.failure.err))
	}
	return append(reasons, v.underWay(r)...)
}

// underWay says what is being done for r, and since when: it may hang.
func (v *volume) underWay(r *row) (reasons []error) {
	for _, o := range []*operation{r.busy, v.busy} {
		if o != nil && !o.started.IsZero() {
			reasons = append(reasons, fmt.Errorf("volume %s: %s is under way since %s", r.place.Inner, o.kind, o.started.Format(time.RFC3339)))
		}
	}
	return reasons
}

// joinDistinct joins errs, of each text the first.
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

// exhausted asks the plugins whether the node has too many volumes. The wait has
// ended, so that the question has a time of its own.
func exhausted(ctx context.Context, volumes []*volume) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, v := range volumes {
		if limiter, ok := v.plugin.(AttachLimiter); ok {
			if full, err := limiter.Exhausted(ctx, v.spec); err == nil && full {
				return true
			}
		}
	}
	return false
}

// outerNames returns all names, sorted.
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

// knows reports whether the pod has volumes.
func (m *Manager) knows(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.mu.pods[uid]
	return ok
}
