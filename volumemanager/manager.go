// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/lifecycle"
	"github.com/keelson-dev/keelson/internal/signal"
)

// Manager keeps a record per volume and mounts and unmounts volumes as the pods of the node need.
// All methods are safe for concurrent use. The methods call the seams: do not call them while
// holding a lock that Pods or Claims take.
type Manager struct {
	options Options
	own     *ownPods // Options.Pods if the caller set none; else nil
	execute executor
	records recordFiles

	// slots limits the number of concurrent operations.
	slots chan struct{}
	// pending counts the goroutines of operations and the armed timers, so that Run can wait for
	// both.
	pending sync.WaitGroup
	// stopped is closed when the context of Run has ended.
	stopped chan struct{}
	// rebuild admits one Reconstruct at a time.
	rebuild signal.Signal

	mu struct {
		sync.Mutex
		life    lifecycle.Stage
		volumes map[v1.UniqueVolumeName]*volume
		pods    map[types.UID]*podEntry
		timers  map[v1.UniqueVolumeName]wakeTimer
		// start carries an operation out in the background; nil unless running.
		start func(*operation)
		// rebuilt: Reconstruct has finished.
		rebuilt bool
		// leftovers are folders and records of unknown plugins.
		leftovers []Leftover
		// epochs counts the requests for volumes, over all pods.
		epochs uint64
		// inUseChanged: unlock must call Hooks.InUseChanged.
		inUseChanged bool
	}
}

// podEntry is the state of a pod with volumes. Manager.mu guards all fields.
type podEntry struct {
	// epoch is the number of the last request for volumes. An answer of Pods from an earlier epoch
	// is discarded.
	epoch uint64
	// changed is closed when a volume of the pod changes; nil while no call waits.
	changed chan struct{}
	// waits counts the waiting calls.
	waits int
	// volumes are the volumes with a row of the pod.
	volumes []*volume
}

// New returns a Manager without volumes. New starts no goroutine and does not touch the disk. The
// error names the invalid field of o.
func New(o Options) (*Manager, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var own *ownPods
	if o.Pods == nil {
		own = newOwnPods()
		o.Pods = own
	}
	records := recordFiles{root: o.Root, marked: new(sync.Once)}
	m := &Manager{
		options: o,
		own:     own,
		records: records,
		execute: executor{
			pods: o.Pods, node: o.Node, subpaths: o.Subpaths, records: records, group: o.FSGroup,
			timeout: o.limits.operation, attach: attachTimeout,
		},
		slots:   make(chan struct{}, o.limits.parallel),
		stopped: make(chan struct{}),
		rebuild: signal.New(),
	}
	m.mu.volumes = map[v1.UniqueVolumeName]*volume{}
	m.mu.pods = map[types.UID]*podEntry{}
	m.mu.timers = map[v1.UniqueVolumeName]wakeTimer{}
	return m, nil
}

// unlock releases the lock, then calls Hooks.InUseChanged if the volumes in use have changed.
func (m *Manager) unlock() {
	changed := m.mu.inUseChanged
	m.mu.inUseChanged = false
	m.mu.Unlock()
	if changed && m.options.Hooks.InUseChanged != nil {
		m.options.Hooks.InUseChanged()
	}
}

// pod returns the entry of uid, and creates it if necessary. The lock is held.
func (m *Manager) pod(uid types.UID) *podEntry {
	p, ok := m.mu.pods[uid]
	if !ok {
		m.mu.epochs++
		p = &podEntry{epoch: m.mu.epochs}
		m.mu.pods[uid] = p
	}
	return p
}

// wakeWaiters wakes the calls that wait for the pod. An entry without volumes and waiting calls is
// deleted. The lock is held.
func (m *Manager) wakeWaiters(uid types.UID) {
	p, ok := m.mu.pods[uid]
	if !ok {
		return
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	m.leave(uid)
}

// link adds a row to v and its pod. The lock is held.
func (m *Manager) link(v *volume, r *row) {
	at, _ := v.find(r.place.PodUID)
	v.rows = slices.Insert(v.rows, at, r)
	p := m.pod(r.place.PodUID)
	p.volumes = append(p.volumes, v)
}

// unlink removes v from the volumes of the pod. The lock is held.
func (m *Manager) unlink(v *volume, uid types.UID) {
	p := m.mu.pods[uid] // exists, because v has or had a row of the pod
	p.volumes = slices.DeleteFunc(p.volumes, func(other *volume) bool { return other == v })
}

// dispatch starts the due operations of v. A volume without rows and state is forgotten. The lock
// is held.
func (m *Manager) dispatch(v *volume) {
	for _, uid := range v.removeIdleRows() {
		m.unlink(v, uid)
		m.wakeWaiters(uid)
	}
	if v.isUnused() {
		m.forget(v)
		return
	}
	if m.mu.start == nil {
		return
	}
	now := time.Now()
	p := v.plan(now)
	for _, s := range p.steps {
		m.mu.start(m.begin(v, s, now))
	}
	m.arm(v.name, p.wake)
}

// begin prepares the operation s and marks it as under way. The lock is held.
func (m *Manager) begin(v *volume, s step, now time.Time) *operation {
	o := v.prepare(s, m.options.Root, now)
	if s.alone {
		v.busy = o
	}
	if !s.alone || s.kind == OpMount { // the row stays until its mount has ended
		v.row(s.uid).busy = o
	}
	return o
}

// forget deletes v and its timer. The lock is held.
func (m *Manager) forget(v *volume) {
	m.arm(v.name, time.Time{})
	delete(m.mu.volumes, v.name)
	m.mu.inUseChanged = m.mu.inUseChanged || v.attachable
}

// each calls f with every volume of the pod. f may make the Manager forget volumes. The lock is
// held.
func (m *Manager) each(uid types.UID, f func(*volume, *row)) {
	p, ok := m.mu.pods[uid]
	if !ok {
		return
	}
	for _, v := range slices.Clone(p.volumes) {
		f(v, v.row(uid))
	}
}
