// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Device is a device of a plug-in.
type Device struct {
	ID      string
	Healthy bool
	NUMA    []int64 // nodes near the device; empty if the plug-in names none
}

// Slot names the devices of a resource held by a container.
type Slot struct {
	Pod                 types.UID
	Container, Resource string
}

// Holding is the devices that a container holds.
type Holding struct {
	Slot
	// Devices are sorted by ID. Healthy is the health at the time of the choice.
	Devices []Device
	// Response is the plug-in's answer for the devices. It is nil until Commit.
	Response []byte

	mustInclude []string // devices of earlier init containers
}

// IDs returns the IDs of the devices, sorted.
func (h Holding) IDs() []string { return idsOf(h.Devices) }

// IsCommitted reports whether the plug-in has answered for the devices.
func (h Holding) IsCommitted() bool { return h.Response != nil }

// Count is the amount of devices of a resource.
type Count struct{ Capacity, Allocatable int }

// Ledger records devices and their holders. A Ledger is not safe for concurrent use.
type Ledger struct {
	pools map[string]*pool
	held  []*Holding // sorted by pod; the holdings of a pod are in the order of its containers
}

// pool is the devices of a resource.
type pool struct {
	devices map[string]Device
	away    bool // no plug-in is connected: no device is healthy
}

// New returns a Ledger without devices.
func New() *Ledger {
	return &Ledger{pools: map[string]*pool{}}
}

// Restore adds the holdings and resources of an earlier Ledger. The resources have no devices until
// Report.
func (l *Ledger) Restore(holdings []Holding, resources []string) {
	for _, resource := range resources {
		l.pools[resource] = &pool{away: true}
	}
	for _, h := range holdings {
		l.add(&h)
	}
}

// add adds holdings behind the other holdings of their pods.
func (l *Ledger) add(holdings ...*Holding) {
	l.held = append(l.held, holdings...)
	slices.SortStableFunc(l.held, func(a, b *Holding) int { return cmp.Compare(a.Pod, b.Pod) })
}

// of returns the holdings of a pod, in the order of its containers.
func (l *Ledger) of(uid types.UID) (all []*Holding) {
	for _, h := range l.held {
		if h.Pod == uid {
			all = append(all, h)
		}
	}
	return all
}

// Report replaces the devices of a resource by the plug-in's full list. It returns the holders of
// devices with changed health, sorted by UID.
func (l *Ledger) Report(resource string, devices []Device) (changed []types.UID) {
	p := &pool{devices: make(map[string]Device, len(devices))}
	for _, d := range devices {
		p.devices[d.ID] = d
	}
	return l.replace(resource, p)
}

// Leave records that no plug-in serves the resource. None of its devices is healthy until the next
// Report. A plug-in that has left without a Report makes the resource known, without devices. Leave
// returns the holders of devices with changed health.
func (l *Ledger) Leave(resource string) (changed []types.UID) {
	now := &pool{away: true}
	if was := l.pools[resource]; was != nil {
		now.devices = was.devices
	}
	return l.replace(resource, now)
}

// Forget removes a resource without a plug-in. Containers keep their devices.
func (l *Ledger) Forget(resource string) {
	if p, ok := l.pools[resource]; ok && p.away {
		delete(l.pools, resource)
	}
}

// replace replaces a pool and returns the holders of devices with changed health.
func (l *Ledger) replace(resource string, now *pool) (changed []types.UID) {
	was := l.pools[resource]
	l.pools[resource] = now
	for _, h := range l.held {
		if h.Resource == resource && slices.ContainsFunc(h.Devices, func(d Device) bool { return was.health(d.ID) != now.health(d.ID) }) {
			changed = append(changed, h.Pod)
		}
	}
	return slices.Compact(changed)
}

// health returns the health of a device as in a container's status.
func (p *pool) health(id string) v1.ResourceHealthStatus {
	if p == nil || p.away {
		return v1.ResourceHealthStatusUnknown
	}
	d, ok := p.devices[id]
	switch {
	case !ok:
		return v1.ResourceHealthStatusUnknown
	case d.Healthy:
		return v1.ResourceHealthStatusHealthy
	}
	return v1.ResourceHealthStatusUnhealthy
}

// free returns the healthy devices that are not in use, in the order of choice.
func (p *pool) free(inUse map[string]bool) []Device {
	if p.away {
		return nil
	}
	var free []Device
	for _, id := range slices.Sorted(maps.Keys(p.devices)) {
		if d := p.devices[id]; d.Healthy && !inUse[id] {
			free = append(free, d)
		}
	}
	return free
}

// IsKnown reports whether a plug-in serves the resource, or served it and is not forgotten.
func (l *Ledger) IsKnown(resource string) bool { return l.pools[resource] != nil }

// IsAway reports whether a known resource has no plug-in at present.
func (l *Ledger) IsAway(resource string) bool {
	p := l.pools[resource]
	return p != nil && p.away
}

// Counts returns the devices of each known resource.
func (l *Ledger) Counts() map[string]Count {
	all := make(map[string]Count, len(l.pools))
	for name, p := range l.pools {
		all[name] = Count{Capacity: len(p.devices), Allocatable: len(p.free(nil))}
	}
	return all
}

// Healthy returns the healthy devices of each known resource, sorted by ID.
func (l *Ledger) Healthy() map[string][]Device {
	all := make(map[string][]Device, len(l.pools))
	for name, p := range l.pools {
		all[name] = p.free(nil)
	}
	return all
}

// Holdings returns all holdings, sorted by pod. The holdings of a pod are in the order of its
// containers.
func (l *Ledger) Holdings() (all []Holding) {
	for _, h := range l.held {
		all = append(all, *h)
	}
	return all
}

// Of returns the holdings of a pod, in the order of its containers.
func (l *Ledger) Of(uid types.UID) (all []Holding) {
	for _, h := range l.of(uid) {
		all = append(all, *h)
	}
	return all
}

// Holders returns the pods that hold devices of a resource, sorted.
func (l *Ledger) Holders(resource string) (uids []types.UID) {
	for _, h := range l.held {
		if h.Resource == resource {
			uids = append(uids, h.Pod)
		}
	}
	return slices.Compact(uids)
}

// Pending returns the holdings of a pod for which the plug-in has not answered, in the order of the
// pod's containers.
func (l *Ledger) Pending(uid types.UID) []Holding {
	return slices.DeleteFunc(l.Of(uid), Holding.IsCommitted)
}

// Commit stores the plug-in's answer for a holding. ok is false if the container holds nothing.
func (l *Ledger) Commit(s Slot, response []byte) (ok bool) {
	for _, h := range l.held {
		if h.Slot == s {
			h.Response = append([]byte{}, response...) // not nil
			return true
		}
	}
	return false
}

// Release frees the devices of a pod, and reports whether the pod held any.
func (l *Ledger) Release(uid types.UID) bool {
	before := len(l.held)
	l.held = slices.DeleteFunc(l.held, func(h *Holding) bool { return h.Pod == uid })
	return len(l.held) < before
}

// Status returns the devices of a container and their health, sorted by resource.
func (l *Ledger) Status(uid types.UID, container string) (all []v1.ResourceStatus) {
	for _, h := range l.of(uid) {
		if h.Container != container {
			continue
		}
		s := v1.ResourceStatus{Name: v1.ResourceName(h.Resource)}
		for _, d := range h.Devices {
			s.Resources = append(s.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(d.ID), Health: l.pools[h.Resource].health(d.ID)})
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b v1.ResourceStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func idsOf(devices []Device) []string {
	ids := make([]string, 0, len(devices))
	for _, d := range devices {
		ids = append(ids, d.ID)
	}
	return ids
}
