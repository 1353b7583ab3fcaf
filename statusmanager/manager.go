// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Errors of a Manager.
var (
	// ErrStopped: the context of Run has ended. Nothing was recorded, and nothing more is written.
	ErrStopped = errors.New("statusmanager: stopped")
	// ErrInvalidPod: the pod is nil, has no UID or name, or is a mirror pod, whose status is that of its static pod.
	ErrInvalidPod = errors.New("statusmanager: invalid pod")
	// ErrUnknownPod: no status of that pod is known.
	ErrUnknownPod = errors.New("statusmanager: unknown pod")
)

// Manager holds the status of every pod of a node and keeps the API server up to date with it. All methods are safe for
// concurrent use, and none waits for a request, but SyncBatch and WaitSynced.
type Manager struct {
	options Options
	getter  Getter // nil if the Patcher is none
	retry   backoff

	// wake has room for one: the loop of Run has something to look at.
	wake chan struct{}
	// stopped is closed when the context of Run has ended.
	stopped chan struct{}

	mu struct {
		sync.Mutex
		life    life
		entries map[types.UID]*entry
		// static are the UIDs of static pods, mirrors the newest mirror pods that were Observed.
		static  map[staticKey]types.UID
		mirrors map[staticKey]*v1.Pod
		queue   queue
		delays  delays
		outage  outage
		busy    int // entries with a request in flight
	}
}

// life is where a Manager stands.
type life uint8

const (
	lifeNew life = iota
	lifeRunning
	lifeStopped
)

// entry is a record with what the shell needs to act on it. All of it is guarded by Manager.mu.
type entry struct {
	record
	uid    types.UID
	ticket ticket // in the queue
	wait   wait   // in the delays
	// busy: a request is in flight, or being thought about. again: something happened since.
	busy, again bool
	// removed: the entry is no longer wanted, but is still busy.
	removed bool
	// epoch counts the lives of a UID, so that a request of an earlier one does not speak for this one.
	epoch uint64
	// failures in a row, and until when to wait because of them. retry says what ends the wait early.
	failures int
	notUntil time.Time
	retry    retryReason
	// holdUntil is until when a change is held back; zero: none is.
	holdUntil time.Time
	// acks is closed when the acknowledged version moves, or the entry goes; nil until somebody waits.
	acks chan struct{}
}

// retryReason is why an entry waits for its next try.
type retryReason uint8

const (
	retryOnTime     retryReason = iota // only time ends it
	retryOnChange                      // the status was refused; another may not be
	retryOnRecovery                    // the server did not answer
)

// New returns a Manager that keeps statuses, and writes them once Run is called. The error names the field of o that
// cannot be used.
func New(o Options) (*Manager, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		options: o,
		retry:   backoff{initial: o.InitialBackoff, limit: o.MaxBackoff, jitter: o.Jitter},
		wake:    make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
	m.getter, _ = o.Patcher.(Getter)
	m.mu.entries = map[types.UID]*entry{}
	m.mu.static = map[staticKey]types.UID{}
	m.mu.mirrors = map[staticKey]*v1.Pod{}
	m.mu.queue.ageing = o.Ageing
	return m, nil
}

// SetPodStatus says what is true of a pod now, and reports whether that is news. It completes the status as the kubelet
// does (1.36): transition times, start time, observedGeneration, and the conditions PodScheduled, Initialized,
// ContainersReady and Ready where they are missing; it is written to the API server as soon as there is a worker.
//
// The caller keeps status; pod must not be written to any more.
//
// Errors: a *TransitionError, if the status would undo what is final; everything but those parts was accepted. Otherwise
// nothing was: ErrInvalidPod or ErrStopped.
func (m *Manager) SetPodStatus(pod *v1.Pod, status v1.PodStatus) (changed bool, err error) {
	if err := validatePod(pod); err != nil {
		return false, err
	}
	m.seed(pod)
	p := &proposal{pod: pod, status: status.DeepCopy()}
	return m.propose(pod.UID, func(*record) *proposal { return p })
}

// TerminatePod says that no container of a pod runs or will run, and that what it used on the node is gone. Containers
// that were started and whose end nobody saw have ended with code 137 and reason ContainerStatusUnknown; the phase becomes
// Failed unless the pod had ended before or is static. Once the API server knows, and if the pod is to be deleted there,
// it is deleted. Returns as SetPodStatus.
func (m *Manager) TerminatePod(pod *v1.Pod) (changed bool, err error) {
	if err := validatePod(pod); err != nil {
		return false, err
	}
	m.seed(pod)
	return m.propose(pod.UID, func(r *record) *proposal {
		status := r.known(pod).DeepCopy()
		terminate(pod, status)
		setReadiness(pod, status, r.gates(pod))
		return &proposal{pod: pod, status: status, finish: ends}
	})
}

// SetContainerReadiness says whether a container instance is ready, and reports whether that is news. Ready and
// ContainersReady follow. A pod or instance that is not in the status on hand, or the same value, changes nothing; a
// mirror pod's UID stands for its static pod. The error is ErrStopped or nil.
func (m *Manager) SetContainerReadiness(uid types.UID, containerID string, ready bool) (changed bool, err error) {
	return m.proposeContainer(uid, containerID, func(r *record, status *v1.PodStatus, c *v1.ContainerStatus) bool {
		if c.Ready == ready {
			return false
		}
		c.Ready = ready
		setReadiness(r.pod, status, r.gates(r.pod))
		return true
	})
}

// SetContainerStartup says whether a container instance has started, and reports whether that is news. See
// SetContainerReadiness.
func (m *Manager) SetContainerStartup(uid types.UID, containerID string, started bool) (changed bool, err error) {
	return m.proposeContainer(uid, containerID, func(_ *record, _ *v1.PodStatus, c *v1.ContainerStatus) bool {
		if c.Started != nil && *c.Started == started {
			return false
		}
		c.Started = &started
		return true
	})
}

func (m *Manager) proposeContainer(uid types.UID, id string, edit func(*record, *v1.PodStatus, *v1.ContainerStatus) bool) (bool, error) {
	changed, err := m.propose(m.translate(uid), func(r *record) *proposal {
		if r.status == nil || id == "" {
			return nil
		}
		status := r.status.DeepCopy()
		c := statusByID(status, id)
		if c == nil || !edit(r, status, c) {
			return nil
		}
		return &proposal{pod: r.pod, status: status}
	})
	return changed, err
}

// propose accepts what proposed returns for the record of uid, nil for nothing, and sees to it that it is written.
func (m *Manager) propose(uid types.UID, proposed func(*record) *proposal) (changed bool, err error) {
	m.mu.Lock()
	if m.mu.life == lifeStopped {
		m.mu.Unlock()
		return false, ErrStopped
	}
	e := m.mu.entries[uid]
	if e == nil || e.removed {
		e = m.revive(uid, e)
	}
	p := proposed(&e.record)
	if p == nil {
		m.forgetIfEmpty(e)
		m.mu.Unlock()
		return false, nil
	}
	m.meetMirror(e, p.pod)
	change, deleting := Change{Pod: p.pod, Old: e.status}, e.remote.deleting
	changed, clamps := e.accept(*p, time.Now())
	change.New, change.Version = e.status, e.version
	held := changed && m.options.Coalesce != nil && e.class() != ClassTerminal
	if changed && e.retry == retryOnChange {
		e.notUntil = time.Time{}
	}
	if !held && (changed || p.finish == ends || e.remote.deleting && !deleting) {
		e.holdUntil = time.Time{}
		m.schedule(e)
	}
	m.mu.Unlock()

	if held {
		m.hold(uid, m.options.Coalesce(change))
	}
	if changed && m.options.OnChange != nil {
		m.options.OnChange(change)
	}
	if len(clamps) > 0 {
		err = &TransitionError{Pod: types.NamespacedName{Namespace: p.pod.Namespace, Name: p.pod.Name}, UID: uid, Clamps: clamps}
	}
	return changed, err
}

// hold writes the status of a pod in d, or earlier if it was held until then before.
func (m *Manager) hold(uid types.UID, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.mu.entries[uid]
	if e == nil || e.removed || !e.dirty() {
		return
	}
	switch until := time.Now().Add(d); {
	case d <= 0:
		e.holdUntil = time.Time{}
	case e.holdUntil.IsZero() || until.Before(e.holdUntil):
		e.holdUntil = until
	}
	m.schedule(e)
}

// GetPodStatus returns a copy of the status of a pod as it was last accepted; false if there is none. A mirror pod's UID
// stands for its static pod.
func (m *Manager) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	uid = m.translate(uid)
	m.mu.Lock()
	e := m.mu.entries[uid]
	if e == nil || e.removed || e.status == nil {
		m.mu.Unlock()
		return v1.PodStatus{}, false
	}
	status := e.status // is never written to
	m.mu.Unlock()
	return *status.DeepCopy(), true
}

// RemoveOrphanedStatuses forgets every pod for which keep says no, and what of it is not written yet. keep is asked for
// the UIDs of pods, static pods and mirror pods, without a lock held.
func (m *Manager) RemoveOrphanedStatuses(keep func(types.UID) bool) {
	for _, uid := range m.uids() {
		if !keep(uid) {
			m.remove(uid)
		}
	}
	m.mu.Lock()
	mirrors := make([]*v1.Pod, 0, len(m.mu.mirrors))
	for _, pod := range m.mu.mirrors {
		mirrors = append(mirrors, pod)
	}
	m.mu.Unlock()
	for _, pod := range mirrors {
		if !keep(pod.UID) {
			m.removeMirror(pod)
		}
	}
}

// WaitSynced waits until the API server has the status that is on hand now, or a later one, or the pod is found to be gone
// there. It returns the cause of ctx if that ends first, ErrUnknownPod if no status is known or it is removed, ErrStopped
// if Run ends.
func (m *Manager) WaitSynced(ctx context.Context, uid types.UID) error {
	uid = m.translate(uid)
	version := uint64(0)
	for {
		m.mu.Lock()
		e := m.mu.entries[uid]
		if e == nil || e.removed || e.status == nil {
			m.mu.Unlock()
			return fmt.Errorf("waiting for the status of pod %s: %w", uid, ErrUnknownPod)
		}
		if version == 0 {
			version = e.version
		}
		if e.acked >= version {
			m.mu.Unlock()
			return nil
		}
		if e.acks == nil {
			e.acks = make(chan struct{})
		}
		acks := e.acks
		m.mu.Unlock()
		select {
		case <-acks:
		case <-m.stopped:
			return fmt.Errorf("waiting for the status of pod %s: %w", uid, ErrStopped)
		case <-ctx.Done():
			return fmt.Errorf("waiting for the status of pod %s: %w", uid, context.Cause(ctx))
		}
	}
}

func validatePod(pod *v1.Pod) error {
	switch {
	case pod == nil:
		return fmt.Errorf("%w: it is nil", ErrInvalidPod)
	case pod.UID == "" || pod.Name == "":
		return fmt.Errorf("%w: %s/%s has no UID or no name", ErrInvalidPod, pod.Namespace, pod.Name)
	case isMirror(pod):
		return fmt.Errorf("%w: %s/%s is a mirror pod", ErrInvalidPod, pod.Namespace, pod.Name)
	}
	return nil
}
