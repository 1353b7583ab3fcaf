// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Operation is an operation under way, or due.
type Operation struct {
	Kind   OperationKind
	Volume v1.UniqueVolumeName
	// PodUID and Outer identify the pod, and its names for the volume. For an operation on the
	// whole volume, they are those of the pod that caused the operation, if any.
	PodUID types.UID
	Outer  []string
	// Attempt counts the failures of the same kind in a row before this operation.
	Attempt int
	// Queued is the time of the decision, Started the time of the plugin call; zero while the
	// operation waits for a slot: 32 operations run at a time. Deadline is the time when ctx ends:
	// an operation past the deadline hangs.
	Queued, Started, Deadline time.Time
}

// OperationEnd is a finished operation.
type OperationEnd struct {
	Operation
	// Pod is the newest known version of the pod, nil if none is known. Do not write to it.
	Pod   *v1.Pod
	Ended time.Time
	// Requested is the time when the pod began to wait for the volume; zero if the pod did not
	// wait.
	Requested time.Time
	Err       error
}

// operation is an operation with all data for the executor, so that the executor does not read the
// manager's state. Only started, deadline and cancel change after prepare.
type operation struct {
	step
	volume    v1.UniqueVolumeName
	plugin    Plugin
	place     Place
	spec      Spec
	pod       *v1.Pod
	outer     []string
	device    Device
	path      string // the pod's path of the volume, if known
	state     State  // before the operation, of the pod's volume or of the device
	found     bool
	refresh   uint64
	from, to  resource.Quantity // the expansion; to is zero if there is none
	attempt   int
	queued    time.Time
	requested time.Time
	// Set when the operation starts.
	started, deadline time.Time
	cancel            context.CancelCauseFunc
}

// prepare copies the data for s from v.
func (v *volume) prepare(s step, root string, now time.Time) *operation {
	o := &operation{
		step: s, volume: v.name, plugin: v.plugin, queued: now,
		device: Device{Root: root, Spec: v.spec, Path: v.devicePath, Dir: v.deviceDir},
	}
	var f failure
	if r := v.row(s.uid); r != nil {
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

// describe returns the exported description of o.
func (o *operation) describe() Operation {
	return Operation{
		Kind: o.kind, Volume: o.volume, PodUID: o.uid, Outer: slices.Clone(o.outer), Attempt: o.attempt,
		Queued: o.queued, Started: o.started, Deadline: o.deadline,
	}
}
