// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/podconfig"
)

// keeperState belongs to the goroutine of Run.
type keeperState struct {
	store   *store
	work    context.Context // of stagings
	staging sync.WaitGroup

	listed  bool      // the source has submitted a snapshot
	patient time.Time // until then, restored units wait for the snapshot
	told    bool      // and the store of the node has it
	desired map[types.NamespacedName]*v1.Pod
	units   map[unitID]*managed

	// out has the pods for the node, and changed the names of the pods to submit.
	out     map[types.NamespacedName]output
	changed map[types.NamespacedName]bool
	sent    map[types.NamespacedName]types.UID
}

// output is a pod for the node. unit is nil for a pod that is replaced.
type output struct {
	pod    *v1.Pod // as the source lists it
	unit   *managed
	hash   string // of the version that the unit runs
	staged bool   // the images of the version are present
}

// runs returns the pod as the node runs it, made anew by each call.
func (o output) runs() *v1.Pod {
	if o.unit == nil {
		return o.pod
	}
	return runnable(o.pod, o.hash, o.staged)
}

func newKeeper(u *Updates, s podconfig.Source) *keeper {
	k := &keeper{Source: s, updates: u, changes: make(chan submitted), ended: make(chan struct{}), notice: signal.New(), dirty: map[unitID]bool{}}
	k.desired, k.units, k.out = map[types.NamespacedName]*v1.Pod{}, map[unitID]*managed{}, map[types.NamespacedName]output{}
	k.changed, k.sent = map[types.NamespacedName]bool{}, map[types.NamespacedName]types.UID{}
	return k
}

// patience is how long the versions of the earlier agent wait for the list of a source. So a pod is
// not started if its manifest was removed while no agent ran.
const patience = time.Second

// gathering is how long the keeper waits for more health before a turn, because a turn looks at all units.
const gathering = 5 * time.Millisecond

// Run implements podconfig.Source. If the source cannot list its pods, the last good versions of the
// earlier agent run.
func (k *keeper) Run(ctx context.Context, out podconfig.Sink) error {
	defer close(k.ended)
	restored, store, err := k.updates.takeRestored(k.Name())
	if err != nil {
		return fmt.Errorf("updates: %w", err)
	}
	k.store, k.patient = store, time.Now().Add(patience)
	var stop context.CancelFunc
	k.work, stop = context.WithCancel(ctx)
	defer k.staging.Wait()
	defer stop()
	for _, s := range restored {
		k.restore(s)
	}
	ended := make(chan error, 1)
	go func() { ended <- k.Source.Run(k.work, k) }()
	failure := k.turn(ctx, out)
	for {
		if failure != nil {
			stop()
		}
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return errors.Join(failure, err)
		case c := <-k.changes:
			k.apply(c.Change)
			c.done <- k.turn(ctx, out)
		case <-k.notice:
			_ = retry.Sleep(ctx, gathering) // the turn sees the end of ctx
			failure = k.turn(ctx, out)
		case <-k.alarm():
			failure = k.turn(ctx, out)
		}
	}
}

// Submit implements podconfig.Sink for the source.
func (k *keeper) Submit(ctx context.Context, c podconfig.Change) error {
	s := submitted{c, make(chan error, 1)}
	select {
	case k.changes <- s:
		return <-s.done
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-k.ended:
		return context.Canceled
	}
}

// alarm returns a channel that receives at the earliest time for which a unit waits.
func (k *keeper) alarm() <-chan time.Time {
	var at time.Time
	for _, m := range k.units {
		if !m.again.IsZero() && (at.IsZero() || m.again.Before(at)) {
			at = m.again
		}
	}
	if at.IsZero() {
		return nil
	}
	return time.After(time.Until(at))
}

// apply changes the desired pods, and marks the units that are affected.
func (k *keeper) apply(c podconfig.Change) {
	if c.Kind() == podconfig.ChangeSnapshot {
		listed := map[types.NamespacedName]bool{}
		for _, pod := range c.Pods() {
			listed[podName(pod)] = true
		}
		for name := range maps.Clone(k.desired) {
			if !listed[name] {
				k.remove(name)
			}
		}
		if !k.listed {
			k.listed = true
			for _, m := range k.units {
				m.dirty = true
			}
		}
	}
	for _, uid := range c.UIDs() {
		for name, pod := range k.desired {
			if pod.UID == uid {
				k.remove(name)
			}
		}
	}
	for _, pod := range c.Pods() {
		name := podName(pod)
		k.remove(name)
		if !c.IsGiven() {
			pod = pod.DeepCopy() // the source may edit its pod
		}
		k.desired[name] = pod
		if k.updates.policy(pod) == Transactional {
			k.unit(idOf(k.Name(), pod)).add(name, pod)
			continue
		}
		k.changed[name] = true
	}
}

// remove removes a desired pod.
func (k *keeper) remove(name types.NamespacedName) {
	pod, ok := k.desired[name]
	if !ok {
		return
	}
	delete(k.desired, name)
	if m := k.units[idOf(k.Name(), pod)]; m != nil && m.remove(name) {
		return
	}
	k.changed[name] = true
}

// turn decides about the units that have changed, and submits the result. The files of forgotten units
// are deleted while their pods stop.
func (k *keeper) turn(ctx context.Context, out podconfig.Sink) error {
	forgotten := k.decide(time.Now())
	defer atOnce(forgotten, func(m *managed) { m.complain(k.store.discard(m.id)) })
	for name := range k.changed {
		pod := k.desired[name]
		switch o, ok := k.out[name]; {
		case pod != nil && k.updates.policy(pod) == Replace:
			k.out[name] = output{pod: pod}
		case ok && o.unit == nil:
			delete(k.out, name)
		}
	}
	return k.flush(ctx, out)
}

// decide takes the turns of the units that have changed, and returns the units that have been forgotten.
func (k *keeper) decide(now time.Time) (forgotten []*managed) {
	var units []*managed
	var turns []*turn
	var reasons []string
	for _, m := range k.takeDirty(now) {
		if m.dirty {
			m.list()
		}
		if m.prepare(now) {
			units, turns, reasons = append(units, m), append(turns, &turn{unit: &m.unit, world: m}), append(reasons, m.record.Reason)
		}
	}
	takeTurns(turns, now)
	for i, m := range units {
		m.conclude(reasons[i], turns[i].err, now)
	}
	forgotten = slices.DeleteFunc(units, func(m *managed) bool { return !m.forgotten })
	for _, m := range forgotten {
		m.complain(k.store.forget(m.id))
		delete(k.units, m.id)
	}
	if len(forgotten) > 0 {
		forgotten[0].complain(k.store.sync())
	}
	return forgotten
}

// takeDirty returns the units to decide about, in a fixed order.
func (k *keeper) takeDirty(now time.Time) (units []*managed) {
	u := k.updates
	u.mu.Lock()
	dirty, all, requests := k.dirty, k.all, k.requests
	k.dirty, k.all, k.requests = map[unitID]bool{}, false, false
	u.mu.Unlock()
	take := func(m *managed) {
		m.again = time.Time{}
		units = append(units, m)
	}
	for id, m := range k.units {
		if requests {
			m.pick = k.store.request(id)
		}
		due := !m.again.IsZero() && !m.again.After(now)
		if m.dirty || all || requests || due {
			take(m)
			delete(dirty, id)
		}
	}
	for id := range dirty {
		if m := k.units[id]; m != nil {
			take(m)
		}
	}
	slices.SortFunc(units, func(a, b *managed) int { return compareID(a.id, b.id) })
	return units
}

// flush submits the changed pods. After the first snapshot of the source, flush submits a snapshot.
func (k *keeper) flush(ctx context.Context, out podconfig.Sink) error {
	var fresh []*v1.Pod
	var gone []types.UID
	for _, name := range sorted.Collect(maps.Keys(k.changed), compareNames) {
		if o, ok := k.out[name]; ok {
			fresh = append(fresh, o.runs())
		} else if uid, ok := k.sent[name]; ok {
			gone = append(gone, uid)
		}
	}
	var changes []podconfig.Change
	switch {
	case k.listed && !k.told:
		fresh = nil
		for _, name := range sorted.Collect(maps.Keys(k.out), compareNames) {
			fresh = append(fresh, k.out[name].runs())
		}
		changes = append(changes, podconfig.Snapshot(fresh...))
	default:
		if len(gone) > 0 {
			changes = append(changes, podconfig.Remove(gone...))
		}
		if len(fresh) > 0 { // replaces pods of the same name
			changes = append(changes, podconfig.Upsert(fresh...))
		}
	}
	for _, c := range changes {
		if err := out.Submit(ctx, c.Given()); err != nil {
			return err
		}
	}
	k.told = k.listed
	for name := range k.changed {
		delete(k.sent, name)
	}
	for _, pod := range fresh {
		k.sent[podName(pod)] = pod.UID
	}
	clear(k.changed)
	return nil
}
