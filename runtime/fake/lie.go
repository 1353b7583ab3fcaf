// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"maps"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// Lie is the kind of error in the results of List and PodStatus.
type Lie uint8

// The lies.
const (
	// Omit leaves out the pods that Fault.On selects.
	Omit Lie = iota + 1
	// Stale reports the selected pods as of the injection of the fault, but with the current time
	// as ObservedAt.
	Stale
	// DuplicateSandbox reports a second ready sandbox of each selected pod, newer than all other
	// sandboxes.
	DuplicateSandbox
)

func (in *Injected) lies() bool { return in != nil && in.f.Lie != 0 }

// selects reports whether the fault selects the pod.
func (in *Injected) selects(st *runtime.PodStatus) bool {
	return Target{UID: in.f.On.UID, Pod: in.f.On.Pod}.matches(Call{UID: st.UID, Pod: st.Name})
}

// distort applies the lie to the true statuses and may change them. World.mu is held.
func (in *Injected) distort(truth []*runtime.PodStatus) []*runtime.PodStatus {
	switch in.f.Lie {
	case Omit:
		return slices.DeleteFunc(truth, in.selects)
	case Stale:
		truth = slices.DeleteFunc(truth, in.selects)
		for _, st := range in.stale {
			truth = append(truth, copyStatus(st))
		}
	case DuplicateSandbox:
		for _, st := range truth {
			if in.selects(st) && len(st.Sandboxes) > 0 {
				st.Sandboxes = slices.Insert(st.Sandboxes, 0, inventedSandbox(st.Sandboxes[0]))
			}
		}
	}
	return truth
}

// inventedSandbox returns a ready sandbox that is newer than s and does not exist.
func inventedSandbox(s runtime.SandboxStatus) runtime.SandboxStatus {
	s.ID += "-double"
	s.Ready = true
	s.CreatedAt = s.CreatedAt.Add(time.Nanosecond)
	s.IPs = slices.Clone(s.IPs)
	return s
}

// copyStatus copies a status that this package made.
func copyStatus(st *runtime.PodStatus) *runtime.PodStatus {
	c := *st
	c.Sandboxes = slices.Clone(st.Sandboxes)
	for i := range c.Sandboxes {
		c.Sandboxes[i].IPs = slices.Clone(c.Sandboxes[i].IPs)
	}
	c.Containers = slices.Clone(st.Containers)
	for i := range c.Containers {
		c.Containers[i].Annotations = maps.Clone(c.Containers[i].Annotations)
	}
	return &c
}
