// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Operation is one that is under way.
type Operation struct {
	Kind   OperationKind
	Volume v1.UniqueVolumeName
	// PodUID and Outer are those of the pod it is for. One for the whole volume has
	// the pod that was the reason, if there was one.
	PodUID types.UID
	Outer  []string
	// Attempt counts the failures of the same kind before, without success in
	// between.
	Attempt int
	// Queued is when it was decided on, Started when the plugin was called; zero
	// while it waits for others (Options.MaxParallel). Deadline is when its ctx
	// ends: one that is still there after that hangs.
	Queued, Started, Deadline time.Time
}

// OperationEnd is one that has ended.
type OperationEnd struct {
	Operation
	// Pod is the newest version that is known, nil if none is. It is not to be
	// written to.
	Pod   *v1.Pod
	Ended time.Time
	// Requested is when the pod began to wait for the volume; zero if it did not.
	Requested time.Time
	Err       error
}

// operation is one with everything that is needed to carry it out without looking
// at the manager's state. Only what is below the line changes.
type operation struct {
	step
	volume    v1.UniqueVolumeName
	plugin    Plugin
	place     Place
	spec      Spec
	pod       *v1.Pod
	outer     []string
	device    Device
	path      string // where the pod has it, if that is known
	state     State  // before, of the pod's volume, or of the device
	found     bool
	refresh   uint64
	from, to  resource.Quantity // to expand; to is zero if not
	attempt   int
	queued    time.Time
	requested time.Time
	// ————
	started, deadline time.Time
	cancel            context.CancelCauseFunc
}

// prepare copies what s needs from v.
func (v *volume) prepare(s step, root string, now time.Time) *operation {
	o := &operation{
		step: s, volume: v.name, plugin: v.plugin, spec: v.spec, queued: now,
		device: Device{Root: root, Spec: v.spec, Path: v.devicePath, Dir: v.deviceDir},
	}
	var f failure
	if r := v.rows[s.uid]; r != nil {
		o.place, o.pod, o.outer, o.path = r.place, r.pod, r.outer, r.mounted.Path
		o.spec, o.refresh, o.requested = r.spec, r.refresh, r.requested
		o.state, o.found = r.state, r.found
		if v.grows(r.spec) && (s.kind == OpMount || s.kind == OpExpand) {
			o.from, o.to = v.size, r.spec.Size
		}
		f = v.failureOf(r, s)
	} else {
		f = v.failure
	}
	if s.kind == OpMountDevice || s.kind == OpUnmountDevice {
		o.state, o.found = v.device, v.found
	}
	if f.kind == s.kind {
		o.attempt = f.count
	}
	return o
}

// describe returns what the world is told of o.
func (o *operation) describe() Operation {
	return Operation{
		Kind: o.kind, Volume: o.volume, PodUID: o.uid, Outer: slices.Clone(o.outer), Attempt: o.attempt,
		Queued: o.queued, Started: o.started, Deadline: o.deadline,
	}
}

// compareOperations orders by volume, then pod.
func compareOperations(a, b Operation) int {
	return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.PodUID, b.PodUID))
}
