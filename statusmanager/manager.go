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

	"github.com/keelson-dev/keelson/internal/lifecycle"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/signal"
)

// Errors of a Manager.
var (
	// ErrStopped: the context of Run has ended. Nothing was recorded, and nothing more is written.
	ErrStopped = errors.New("statusmanager: stopped")
	// ErrInvalidPod: the pod is nil, has no UID or name, or is a mirror pod. Set the status of the
	// static pod instead of the mirror pod.
	ErrInvalidPod = errors.New("statusmanager: invalid pod")
	// ErrUnknownPod: the pod has no known status.
	ErrUnknownPod = errors.New("statusmanager: unknown pod")
)

// Manager holds the status of every pod of a node and writes changes to the API server. All methods
// are safe for concurrent use. Only SyncBatch and WaitSynced wait for requests.
type Manager struct {
	options Options
	getter  Getter // nil if the Patcher is not a Getter
	setter  Setter // nil if the Patcher is not a Setter

	// wake has room for one value: the loop of Run has work.
	wake signal.Signal
	// stopped is closed when the context of Run has ended.
	stopped chan struct{}
	// flights are the turns under way.
	flights sync.WaitGroup

	mu struct {
		sync.Mutex
		life    lifecycle.Stage
		entries map[types.UID]*entry
		epoch   uint64 // of the newest record
		// static are the UIDs of static pods. mirrors are the newest observed mirror pods.
		static  map[staticKey]types.UID
		mirrors map[staticKey]*v1.Pod
		lanes   lanes
		delays  delays
	}
}

// entry is a record with the queue positions and flags of the Manager. All fields are guarded by
// Manager.mu.
type entry struct {
	record
	uid    types.UID
	ticket ticket // in the queue
	wait   wait   // in the delays
	// busy: a request is in flight or being prepared. again: the record has changed since.
	busy, again bool
	// removed: the entry is no longer wanted, but is still busy.
	removed bool
	// epoch is another number for each record, so that a request for an earlier record of the UID does
	// not affect the present record.
	epoch uint64
	// failures counts consecutive failed requests; notUntil is the earliest time of the next try. A
	// newer status ends the wait.
	failures int
	notUntil time.Time
	// pace is the pace of the last request.
	pace pace
	// budget bounds the requests, whatever the server answers.
	budget budget
	// holdUntil is the end of the hold of a change; zero without a hold.
	holdUntil time.Time
	// acks is closed when the acknowledged version advances, or the entry is removed; nil without
	// waiting callers.
	acks chan struct{}
}

// New returns a Manager that stores statuses, and writes them once Run is called. The error names
// the invalid field of o.
func New(o Options) (*Manager, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		options: o,
		wake:    signal.New(),
		stopped: make(chan struct{}),
	}
	m.getter, _ = o.Patcher.(Getter)
	m.setter, _ = o.Patcher.(Setter)
	m.mu.entries = map[types.UID]*entry{}
	m.mu.static = map[staticKey]types.UID{}
	m.mu.mirrors = map[staticKey]*v1.Pod{}
	m.mu.lanes = newLanes(o.Workers)
	return m, nil
}

// SetPodStatus stores the current status of a pod and reports whether the status changed.
// SetPodStatus completes the status as the kubelet does (1.36): transition times, start time,
// observedGeneration, and missing conditions PodScheduled, Initialized, ContainersReady and Ready.
// The status is written to the API server as soon as a worker is free.
//
// After the call, the caller may change the fields of status itself, but must not write to pod or
// to objects to which status points.
//
// The error is a *TransitionError if the status would undo a final state; all other parts were
// accepted. After ErrInvalidPod or ErrStopped nothing was accepted.
func (m *Manager) SetPodStatus(pod *v1.Pod, status v1.PodStatus) (changed bool, err error) {
	if err := validatePod(pod); err != nil {
		return false, err
	}
	m.seed(pod)
	p := &proposal{pod: pod, status: draftOf(&status), source: fromCaller}
	return m.propose(pod.UID, func(*record) *proposal { return p })
}

// TerminatePod records that no container of a pod runs or will run, and that the pod's resources on
// the node are released. Started containers without a known exit get exit code 137 and reason
// ContainerStatusUnknown. The phase becomes Failed, unless the pod had already ended or is static.
// Once the API server has the final status, a pod with a deletion timestamp is deleted there. The
// results are as in SetPodStatus.
func (m *Manager) TerminatePod(pod *v1.Pod) (changed bool, err error) {
	if err := validatePod(pod); err != nil {
		return false, err
	}
	m.seed(pod)
	return m.propose(pod.UID, func(r *record) *proposal {
		status := draftOf(r.known(pod))
		terminate(pod, status)
		setReadiness(pod, status, r.gates(pod))
		return &proposal{pod: pod, status: status, source: fromCaller, finish: ends}
	})
}

// SetContainerReadiness records whether a container instance is ready, and reports whether the
// value changed. Ready and ContainersReady follow. An unknown pod, an instance missing in the
// current status, or an unchanged value has no effect. The UID of a mirror pod means its static
// pod. The error is ErrStopped or nil.
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

// SetContainerStartup records whether a container instance has started, and reports whether the
// value changed. See SetContainerReadiness.
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
		status := draftOf(r.status)
		c := statusByID(status, id)
		if c == nil || !edit(r, status, c) {
			return nil
		}
		return &proposal{pod: r.pod, status: status, source: fromCaller}
	})
	return changed, err
}

// propose accepts the proposal returned by proposed for the record of uid, and schedules a write. A
// nil proposal has no effect.
func (m *Manager) propose(uid types.UID, proposed func(*record) *proposal) (changed bool, err error) {
	m.mu.Lock()
	if m.mu.life == lifecycle.Stopped {
		m.mu.Unlock()
		return false, ErrStopped
	}
	e := m.entry(uid)
	p := proposed(&e.record)
	if p == nil {
		m.forgetIfEmpty(e)
		m.mu.Unlock()
		return false, nil
	}
	m.meetMirror(e, p.pod)
	change, deleting, finished := Change{Pod: p.pod, Old: e.status}, e.remote.deleting, e.finished
	changed, clamps := e.accept(*p, time.Now())
	change.New, change.Version = e.status, e.version
	held := changed && m.options.Coalesce != nil && e.class() != ClassTerminal
	if changed {
		e.notUntil = time.Time{}
	}
	if changed || e.finished && !finished || e.remote.deleting && !deleting {
		e.budget.news()
	}
	if changed && !podfacts.IsStatic(p.pod) && endsHere(change.Old, change.New) {
		e.budget.ends()
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

// hold delays writing the status of a pod by d. An earlier end of an existing hold stays.
func (m *Manager) hold(uid types.UID, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.mu.entries[uid]
	if e == nil || !e.dirty() {
		return
	}
	if until := time.Now().Add(d); e.holdUntil.IsZero() || until.Before(e.holdUntil) {
		e.holdUntil = until
	}
	m.schedule(e)
}

// GetPodStatus returns a copy of the last accepted status of a pod; false if the pod has no status.
// The UID of a mirror pod means its static pod.
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

// RemoveOrphanedStatuses forgets every pod for which keep returns false, including unwritten
// statuses. keep is called with the UIDs of pods, static pods and mirror pods, without a lock held.
func (m *Manager) RemoveOrphanedStatuses(keep func(types.UID) bool) {
	for _, e := range m.entries(func(*entry) bool { return true }) {
		if !keep(e.uid) {
			m.remove(e.uid)
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

// WaitSynced waits until the API server has the present status or a later status, or reports that
// the pod is gone. The error wraps the cause of ctx if ctx ends first, ErrUnknownPod if the pod has
// no status or is removed, and ErrStopped if Run ends.
func (m *Manager) WaitSynced(ctx context.Context, uid types.UID) error {
	uid = m.translate(uid)
	var version, epoch uint64
	for {
		m.mu.Lock()
		e := m.mu.entries[uid]
		if epoch == 0 && e != nil {
			version, epoch = e.version, e.epoch
		}
		if e == nil || e.epoch != epoch || e.removed || e.status == nil {
			m.mu.Unlock()
			return fmt.Errorf("waiting for the status of pod %s: %w", uid, ErrUnknownPod)
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
	case podfacts.IsMirror(pod):
		return fmt.Errorf("%w: %s/%s is a mirror pod", ErrInvalidPod, pod.Namespace, pod.Name)
	}
	return nil
}
