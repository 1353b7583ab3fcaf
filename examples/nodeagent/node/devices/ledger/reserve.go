// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/quantities"
)

// Cause says why devices cannot be reserved.
type Cause uint8

const (
	// Changed means that a container with devices now requests another number of devices.
	Changed Cause = iota
	// Unhealthy means that no device of the resource is healthy.
	Unhealthy
	// TooFew means that the free healthy devices do not suffice.
	TooFew
)

// Error is the failure of Reserve. Its text is the kubelet's (1.36).
type Error struct {
	Slot
	Cause Cause
	// Requested and Available are numbers of devices. With Changed, Available is the number that the
	// container holds.
	Requested, Available int
}

// Error implements error.
func (e *Error) Error() string {
	switch e.Cause {
	case Changed:
		return fmt.Sprintf("pod %q container %q changed request for resource %q from %d to %d", e.Pod, e.Container, e.Resource, e.Available, e.Requested)
	case Unhealthy:
		return "no healthy devices present; cannot allocate unhealthy devices " + e.Resource
	}
	return fmt.Sprintf("requested number of devices unavailable for %s. Requested: %d, Available: %d", e.Resource, e.Requested, e.Available)
}

// Reserve chooses devices for all containers of a pod that have none. If a choice fails, the Ledger is
// unchanged and the error is an *Error.
func (l *Ledger) Reserve(pod *v1.Pod) error {
	kept := make(map[Slot]*Holding)
	for _, h := range l.of(pod.UID) {
		kept[h.Slot] = h
	}
	return l.arrange(pod, kept, Slot{}, nil)
}

// Choice is a choice among devices that a plug-in can make.
type Choice struct {
	Available   []string // IDs to choose from, sorted; includes MustInclude
	MustInclude []string
	Size        int
}

// Choice returns the choice for a pending holding. ok is false if there is nothing to choose.
func (l *Ledger) Choice(h Holding) (c Choice, ok bool) {
	p := l.pools[h.Resource]
	if p == nil || h.IsCommitted() {
		return c, false
	}
	inUse := l.inUse(h.Resource, func(other *Holding) bool { return other.Pod != h.Pod || other.IsCommitted() })
	available := idsOf(p.free(inUse))
	for _, id := range h.mustInclude {
		if !slices.Contains(available, id) {
			available = append(available, id)
		}
	}
	slices.Sort(available)
	return Choice{Available: available, MustInclude: h.mustInclude, Size: len(h.Devices)}, len(available) > len(h.Devices)
}

// Prefer chooses again for a pending holding of the pod and for the pending holdings after it. The
// preferred devices are chosen first, as far as they are free and healthy. After an error the Ledger
// is unchanged.
func (l *Ledger) Prefer(pod *v1.Pod, s Slot, preferred []string) error {
	kept, again := make(map[Slot]*Holding), false
	for _, h := range l.of(pod.UID) {
		again = again || h.Slot == s
		if !again || h.IsCommitted() {
			kept[h.Slot] = h
		}
	}
	return l.arrange(pod, kept, s, preferred)
}

// inUse returns the devices of a resource in the holdings for which counts returns true.
func (l *Ledger) inUse(resource string, counts func(*Holding) bool) map[string]bool {
	ids := make(map[string]bool)
	for _, h := range l.held {
		if h.Resource != resource || !counts(h) {
			continue
		}
		for _, d := range h.Devices {
			ids[d.ID] = true
		}
	}
	return ids
}

// arrange chooses devices for every slot of the pod that is not in kept, with the preferred devices
// for the slot at.
func (l *Ledger) arrange(pod *v1.Pod, kept map[Slot]*Holding, at Slot, preferred []string) error {
	var all []*Holding
	reusable := make(map[string][]Device) // by resource: devices of init containers that end before
	own := make(map[string][]Device)      // by resource: all devices of the pod
	for _, h := range kept {
		own[h.Resource] = append(own[h.Resource], h.Devices...)
	}
	needs := l.needs(pod)
	lasting := make(map[string][]Device) // by resource: devices of kept containers that do not end
	for _, need := range needs {
		if h, held := kept[need.Slot]; held && !need.ends {
			lasting[need.Resource] = append(lasting[need.Resource], h.Devices...)
		}
	}
	for _, need := range needs {
		h, held := kept[need.Slot]
		if held && len(h.Devices) != need.count {
			return &Error{Slot: need.Slot, Cause: Changed, Requested: need.count, Available: len(h.Devices)}
		}
		if !held {
			var first []string
			if need.Slot == at {
				first = preferred
			}
			var err error
			spare := slices.DeleteFunc(slices.Clone(reusable[need.Resource]), isIn(lasting[need.Resource]))
			if h, err = l.choose(need, spare, own[need.Resource], first); err != nil {
				return err
			}
			own[need.Resource] = append(own[need.Resource], h.Devices...)
		}
		all = append(all, h)
		reusable[need.Resource] = slices.DeleteFunc(slices.Clone(reusable[need.Resource]), isIn(h.Devices))
		if need.ends {
			reusable[need.Resource] = append(reusable[need.Resource], h.Devices...)
		}
	}
	for _, h := range l.of(pod.UID) { // of resources that are no longer known
		if kept[h.Slot] != nil && !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	if len(all) > 0 {
		l.Release(pod.UID)
		l.add(all...)
	}
	return nil
}

// isIn returns a function that reports whether a device is in all.
func isIn(all []Device) func(Device) bool {
	return func(d Device) bool { return slices.ContainsFunc(all, func(x Device) bool { return x.ID == d.ID }) }
}

// choose chooses the devices of a container.
func (l *Ledger) choose(n need, reusable, own []Device, first []string) (*Holding, error) {
	p := l.pools[n.Resource]
	if len(p.free(nil)) == 0 {
		return nil, &Error{Slot: n.Slot, Cause: Unhealthy, Requested: n.count}
	}
	h := &Holding{Slot: n.Slot}
	take := func(from []Device, wanted func(Device) bool) {
		for _, d := range from {
			if len(h.Devices) < n.count && wanted(d) && !isIn(h.Devices)(d) {
				h.Devices = append(h.Devices, d)
			}
		}
	}
	isAny := func(Device) bool { return true }
	isFirst := func(d Device) bool { return slices.Contains(first, d.ID) }
	healthy := slices.DeleteFunc(slices.Clone(reusable), func(d Device) bool { return p.health(d.ID) != v1.ResourceHealthStatusHealthy })
	slices.SortFunc(healthy, func(a, b Device) int { return cmp.Compare(a.ID, b.ID) })
	take(healthy, isFirst)
	take(healthy, isAny)
	h.mustInclude = idsOf(h.Devices)
	slices.Sort(h.mustInclude)
	inUse := l.inUse(n.Resource, func(other *Holding) bool { return other.Pod != n.Pod })
	for _, d := range own {
		inUse[d.ID] = true
	}
	free := p.free(inUse)
	if missing := n.count - len(h.Devices); missing > len(free) {
		return nil, &Error{Slot: n.Slot, Cause: TooFew, Requested: missing, Available: len(free)}
	}
	take(free, isFirst)
	take(free, isAny)
	slices.SortFunc(h.Devices, func(a, b Device) int { return cmp.Compare(a.ID, b.ID) })
	return h, nil
}

// need is a number of devices for a container.
type need struct {
	Slot
	count int
	ends  bool // the container ends before the next container of the pod begins
}

// needs returns the needs of a pod for known resources: init containers first, in the order of the
// pod, with the resources of a container sorted by name.
func (l *Ledger) needs(pod *v1.Pod) (all []need) {
	add := func(c *v1.Container, ends bool) {
		begin := len(all)
		for name, quantity := range c.Resources.Limits {
			if n := quantities.Value(quantity); n > 0 && l.IsKnown(string(name)) {
				all = append(all, need{Slot{pod.UID, c.Name, string(name)}, int(n), ends})
			}
		}
		slices.SortFunc(all[begin:], func(a, b need) int { return cmp.Compare(a.Resource, b.Resource) })
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		add(c, !podfacts.IsSidecar(c))
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], false)
	}
	return all
}

// Needs reports whether a container of the pod has a limit of a known resource.
func (l *Ledger) Needs(pod *v1.Pod) bool { return len(l.pools) > 0 && len(l.needs(pod)) > 0 }
