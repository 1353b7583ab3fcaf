// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// OperationKind is what an operation does.
type OperationKind uint8

// The kinds. Those of one pod's volume run at once for different pods; those of
// the whole volume run alone on it.
const (
	// OpMount sets a volume up for a pod (SetUp, MapBlock).
	OpMount OperationKind = iota + 1
	// OpRefresh renews the content of one that is set up (SetUp with Remount).
	OpRefresh
	// OpUnmount tears a volume down for a pod (TearDown, UnmapBlock).
	OpUnmount
	// OpVerifyAttached waits for what the attacher does. For the whole volume.
	OpVerifyAttached
	// OpMountDevice stages the volume for the node. For the whole volume.
	OpMountDevice
	// OpUnmountDevice undoes that. For the whole volume.
	OpUnmountDevice
	// OpExpand grows the volume. For the whole volume.
	OpExpand
)

// String returns the name that the kubelet has for the operation in its metrics.
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

// step is an operation that is due.
type step struct {
	kind OperationKind
	uid  types.UID // of the pod it is for; "" if it is for none in particular
	// alone: it runs alone on the volume.
	alone bool
}

// volumePlan is what is to be done about one volume.
type volumePlan struct {
	// steps may begin now, all at once.
	steps []step
	// wake is when to look again although nothing happened; zero = never.
	wake time.Time
}

// plan decides what is to be done about v now. Rules, in this order:
//
//  1. While an operation runs alone on v, nothing else begins.
//  2. Each pod has at most one operation on v at a time.
//  3. What a gone pod has, or may have, is torn down. Nothing else ever is.
//  4. What a pod needs is attached, staged and set up, in this order; then its
//     content is renewed as often as was asked for, and the volume expanded.
//  5. An operation that is to run alone begins when no other runs or can begin.
//  6. When no pod has v or needs it, it is unstaged.
//
// An operation that failed is held until its back-off is over; another kind of
// operation is not held by that.
func (v *volume) plan(now time.Time) volumePlan {
	var p volumePlan
	if v.busy != nil {
		return p
	}
	var alone *step
	running := false
	for _, uid := range v.uids() {
		r := v.rows[uid]
		if r.busy != nil {
			running = true
			continue
		}
		s, ok := v.next(uid, r)
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

// next returns the next operation for one pod.
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
	// A volume that grows when it is mounted does so once for all pods.
	return step{kind: OpMount, uid: uid, alone: v.grows(r.spec)}, true
}

// blocked returns why v cannot be mounted for a pod that needs it, where only an
// event from outside or another pod can change that.
func (v *volume) blocked(uid types.UID, r *row) error {
	if v.attachable && !v.attached && !v.reported {
		return fmt.Errorf("volume %s is not yet reported as in use by the node", v.name)
	}
	if other, ok := v.elsewhere(uid); ok && r.spec.exclusive() {
		return fmt.Errorf("volume %s has the access mode ReadWriteOncePod and is in use by pod %s", v.name, other)
	}
	return nil
}

// failureOf returns the failure that could hold s.
func (v *volume) failureOf(r *row, s step) failure {
	if s.kind == OpMount || s.kind == OpRefresh || s.kind == OpUnmount {
		return r.failure
	}
	return v.failure
}

// held reports whether f holds an operation, and notes until when.
func (p *volumePlan) held(f failure, kind OperationKind, now time.Time) bool {
	if f.kind != kind || f.count == 0 {
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
