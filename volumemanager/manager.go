// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Manager keeps one record per volume and brings what is mounted to what pods
// need. All methods are safe for concurrent use. They call the seams, so none may
// be called with a lock held that the caller's Pods or Claims need.
type Manager struct {
	options Options
	execute executor
	wait    backoff
	records recordFiles

	// slots bounds how many operations run at a time.
	slots chan struct{}
	// pending counts the goroutines of operations and the timers that are armed,
	// so that Run can wait for both.
	pending sync.WaitGroup
	// stopped is closed when the context of Run has ended.
	stopped chan struct{}
	// rebuild admits one Reconstruct at a time.
	rebuild chan struct{}

	mu struct {
		sync.Mutex
		life    life
		volumes map[v1.UniqueVolumeName]*volume
		pods    map[types.UID]*podEntry
		timers  map[v1.UniqueVolumeName]*wakeTimer
		// start carries an operation out in the background; nil unless running.
		start func(*operation)
		// rebuilt: Reconstruct has been through.
		rebuilt bool
		// leftovers are folders and records that no plugin knows what to do with.
		leftovers []Leftover
		// epochs counts the requests for volumes of all pods.
		epochs uint64
		// inUseChanged: Hooks.InUseChanged is to be called.
		inUseChanged bool
	}
}

// life is where a Manager stands.
type life uint8

const (
	lifeNew life = iota
	lifeRunning
	lifeStopped
)

// podEntry is what is known of a pod with volumes. All of it is guarded by
// Manager.mu.
type podEntry struct {
	// epoch is that of the last request for volumes, so that an older answer of
	// Pods does not undo a newer request.
	epoch uint64
	// changed is closed when a volume of the pod changes; nil until somebody waits.
	changed chan struct{}
	// waits counts those who wait.
	waits int
	// volumes are the volumes with a row of the pod.
	volumes map[v1.UniqueVolumeName]struct{}
}

// New returns a Manager that knows nothing yet. It starts nothing and touches no
// disk. The error names the field of o that cannot be used.
func New(o Options) (*Manager, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	records := recordFiles{root: o.Root, marked: new(sync.Once)}
	m := &Manager{
		options: o,
		records: records,
		wait:    backoff{first: o.InitialBackoff, most: max(o.InitialBackoff, o.MaxBackoff)},
		execute: executor{
			pods: o.Pods, node: o.Node, subpaths: o.Subpaths, records: records,
			timeout: o.OperationTimeout, attach: o.AttachTimeout,
		},
		slots:   make(chan struct{}, o.MaxParallel),
		stopped: make(chan struct{}),
		rebuild: make(chan struct{}, 1),
	}
	m.mu.volumes = map[v1.UniqueVolumeName]*volume{}
	m.mu.pods = map[types.UID]*podEntry{}
	m.mu.timers = map[v1.UniqueVolumeName]*wakeTimer{}
	return m, nil
}

// unlock ends a section that may have changed what is in use.
func (m *Manager) unlock() {
	changed := m.mu.inUseChanged
	m.mu.inUseChanged = false
	m.mu.Unlock()
	if changed && m.options.Hooks.InUseChanged != nil {
		m.options.Hooks.InUseChanged()
	}
}

// pod returns the entry of uid, made if need be. The lock is held.
func (m *Manager) pod(uid types.UID) *podEntry {
	p, ok := m.mu.pods[uid]
	if !ok {
		m.mu.epochs++
		p = &podEntry{epoch: m.mu.epochs, volumes: map[v1.UniqueVolumeName]struct{}{}}
		m.mu.pods[uid] = p
	}
	return p
}

// tell wakes those who wait for the pod, and forgets the pod if it has nothing and
// nobody waits. The lock is held.
func (m *Manager) tell(uid types.UID) {
	p, ok := m.mu.pods[uid]
	if !ok {
		return
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	if len(p.volumes) == 0 && p.waits == 0 {
		delete(m.mu.pods, uid)
	}
}

// link adds a row. The lock is held.
func (m *Manager) link(v *volume, r *row) {
	v.rows[r.place.PodUID] = r
	m.pod(r.place.PodUID).volumes[v.name] = struct{}{}
}

// unlink notes that v has no row of the pod any more. The lock is held.
func (m *Manager) unlink(v *volume, uid types.UID) {
	if p, ok := m.mu.pods[uid]; ok {
		delete(p.volumes, v.name)
	}
}

// dispatch begins what is due on v, and forgets v if nothing is left of it. The
// lock is held.
func (m *Manager) dispatch(v *volume) {
	for _, uid := range v.tidy() {
		m.unlink(v, uid)
		m.tell(uid)
	}
	if v.over() {
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

// begin marks s as under way. The lock is held.
func (m *Manager) begin(v *volume, s step, now time.Time) *operation {
	o := v.prepare(s, m.options.Root, now)
	if s.alone {
		v.busy = o
	} else {
		v.rows[s.uid].busy = o
	}
	return o
}

// forget drops v. The lock is held.
func (m *Manager) forget(v *volume) {
	m.arm(v.name, time.Time{})
	delete(m.mu.timers, v.name)
	delete(m.mu.volumes, v.name)
	m.mu.inUseChanged = m.mu.inUseChanged || v.attachable
}

// each calls f with every volume of the pod, of which f may forget some. The lock
// is held.
func (m *Manager) each(uid types.UID, f func(*volume, *row)) {
	p, ok := m.mu.pods[uid]
	if !ok {
		return
	}
	for name := range p.volumes {
		if v := m.mu.volumes[name]; v != nil && v.rows[uid] != nil {
			f(v, v.rows[uid])
		}
	}
}
