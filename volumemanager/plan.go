// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// OperationKind is the kind of an operation.
type OperationKind uint8

// The kinds. Operations for single pods run at the same time for different pods. Operations on the
// whole volume run alone.
const (
	// OpMount sets a volume up for a pod (SetUp, MapBlock).
	OpMount OperationKind = iota + 1
	// OpRefresh renews the content of a mounted volume (SetUp with Remount).
	OpRefresh
	// OpUnmount tears a volume down for a pod (TearDown, UnmapBlock).
	OpUnmount
	// OpVerifyAttached waits for the attacher. On the whole volume.
	OpVerifyAttached
	// OpMountDevice stages the volume for the node. On the whole volume.
	OpMountDevice
	// OpUnmountDevice unstages the volume. On the whole volume.
	OpUnmountDevice
	// OpExpand grows the volume. On the whole volume.
	OpExpand
)

// String returns the kubelet's name of the operation in metrics.
func (k OperationKind) String() string {
	switch k {
	case OpMount:
		return "volume_mount"
	case OpRefresh:
		return "volume_remount"
	case OpUnmount:
		return "volume_unmount"
	case OpVerifyAttached:
		return "verify_controller_attached_volume"
	case OpMountDevice:
		return "mount_device"
	case OpUnmountDevice:
		return "unmount_device"
	case OpExpand:
		return "volume_fs_resize"
	}
	return fmt.Sprintf("OperationKind(%d)", uint8(k))
}

// MarshalText returns String.
func (k OperationKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// step is a due operation.
type step struct {
	kind OperationKind
	uid  types.UID // of the pod that causes the operation; "" if no pod does
	// alone: no other operation may run on the volume.
	alone bool
}

// volumePlan lists the due operations of a volume.
type volumePlan struct {
	// steps may start now, all at the same time.
	steps []step
	// wake is the end of the first back-off; zero = none.
	wake time.Time
}

// plan returns the operations of v that are due now. Rules, in this order:
//
//  1. While an operation runs alone on v, no other operation starts.
//  2. Each pod has at most one operation on v at a time.
//  3. A mounted or uncertain volume of a gone pod is torn down. No other volume ever is.
//  4. A volume needed by a pod is attached, staged and set up, in this order. Then its content is
//     renewed for each request, and the volume is expanded.
//  5. An operation that must run alone starts when no other operation runs or can start.
//  6. When no pod has or needs v, v is unstaged.
//
// A failed operation is held until its back-off is over. The back-off does not hold operations of
// another kind.
func (v *volume) plan(now time.Time) volumePlan {
	if v.busy != nil {
		return volumePlan{}
	}
	var p volumePlan
	var alone *step
	running := false
	for _, r := range v.rows {
		if r.busy != nil {
			running = true
			continue
		}
		s, ok := v.next(r.place.PodUID, r)
		if !ok || p.held(v.failureOf(r, s), s.kind, now) {
			continue
		}
		switch {
		case !s.alone:
			p.steps = append(p.steps, s)
		case alone == nil:
			alone = &s
		}
	}
	if len(v.rows) == 0 && v.device != StateNotMounted {
		if s := (step{kind: OpUnmountDevice, alone: true}); !p.held(v.failure, s.kind, now) {
			alone = &s
		}
	}
	if alone != nil && !running && len(p.steps) == 0 {
		p.steps = append(p.steps, *alone)
	}
	return p
}

// next returns the next operation for a pod.
func (v *volume) next(uid types.UID, r *row) (step, bool) {
	switch {
	case r.desire == DesireGone:
		return step{kind: OpUnmount, uid: uid}, r.state != StateNotMounted
	case r.desire == DesireKept || r.terminating:
		return step{}, false
	case r.state == StateMounted && r.refresh > r.done:
		return step{kind: OpRefresh, uid: uid}, true
	case r.state == StateMounted:
		return step{kind: OpExpand, uid: uid, alone: true}, v.grows(r.spec)
	case v.blocked(uid, r) != nil:
		return step{}, false
	case v.attachable && !v.attached:
		return step{kind: OpVerifyAttached, uid: uid, alone: true}, true
	case v.staged && v.device != StateMounted:
		return step{kind: OpMountDevice, uid: uid, alone: true}, true
	}
	// If the volume must grow, the mount expands it once for all pods. Of several pods that need an
	// exclusive volume, the first gets it.
	return step{kind: OpMount, uid: uid, alone: v.grows(r.spec) || r.spec.exclusive()}, true
}

// blocked returns the reason why v cannot be mounted for a pod, if only an external event or
// another pod can end the obstacle.
func (v *volume) blocked(uid types.UID, r *row) error {
	if v.attachable && !v.attached && !v.reported {
		return fmt.Errorf("volume %s is not yet reported as in use by the node", v.name)
	}
	if other, ok := v.elsewhere(uid); ok && r.spec.exclusive() {
		return fmt.Errorf("volume %s has the access mode ReadWriteOncePod and is in use by pod %s", v.name, other)
	}
	return nil
}

// failureOf returns the failure that may hold s.
func (v *volume) failureOf(r *row, s step) failure {
	if s.kind == OpMount || s.kind == OpRefresh || s.kind == OpUnmount {
		return r.failure
	}
	return v.failure
}

// held reports whether f holds an operation, and updates wake.
func (p *volumePlan) held(f failure, kind OperationKind, now time.Time) bool {
	if f.kind != kind {
		return false
	}
	if f.terminal {
		return true
	}
	if !f.until.After(now) {
		return false
	}
	if p.wake.IsZero() || f.until.Before(p.wake) {
		p.wake = f.until
	}
	return true
}
