// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/retry"
)

// outcome is the result of an operation.
type outcome struct {
	err error
	// mounted is the result of SetUp.
	mounted Mounted
	// devicePath is the result of WaitForAttach.
	devicePath string
	// grown is the new size of an expanded volume; else zero. refused: the plugin cannot expand the
	// volume.
	grown   resource.Quantity
	refused bool
	// found: containers may have used the volume before the SetUp.
	found bool
	// alive: Pods did not report the pod as gone, so nothing was torn down.
	alive bool
}

// settle applies the outcome of o to v. o must be the operation under way in v or the row.
//
//	              ok          transient   final, terminal         else
//	mount         mounted     unchanged   not mounted, but stays  uncertain
//	                                      uncertain if found
//	remount       mounted     mounted     mounted                 mounted
//	unmount       not mounted uncertain   uncertain               uncertain
//
// The same table holds for the device. A found volume was found after a restart of the agent, and
// was not set up since. Containers may use a found volume, whatever error SetUp returns.
func (v *volume) settle(o *operation, out outcome, now time.Time) {
	r := v.row(o.uid)
	v.busy = nil // no operation runs beside an operation that runs alone
	if r != nil {
		r.busy = nil
	}
	if out.refused {
		v.fixed = true
	}
	if !out.grown.IsZero() {
		v.size = out.grown
	}
	switch o.kind {
	case OpMount, OpRefresh:
		r.failure = r.failure.next(o.kind, out.err, now)
		r.settleSetUp(o, out)
	case OpUnmount:
		if out.alive {
			if r.desire == DesireGone {
				r.desire = DesireKept
			}
			return
		}
		r.failure = r.failure.next(o.kind, out.err, now)
		r.state, r.found = afterUnmount(out.err), r.found && out.err != nil
	default:
		v.failure = v.failure.next(o.kind, out.err, now)
		v.settleDevice(o, out)
	}
}

// settleSetUp applies the outcome of a SetUp.
func (r *row) settleSetUp(o *operation, out outcome) {
	r.tried = max(r.tried, o.refresh)
	if out.err == nil {
		r.done = max(r.done, o.refresh)
		r.state, r.found, r.mounted = StateMounted, false, out.mounted
		return
	}
	if out.found {
		r.state, r.found = StateUncertain, true
	}
	r.state = afterMount(r.state, r.found, out.err)
}

// settleDevice applies the outcome of an operation on the whole volume.
func (v *volume) settleDevice(o *operation, out outcome) {
	switch o.kind {
	case OpVerifyAttached:
		if out.err == nil {
			v.attached, v.devicePath = true, out.devicePath
		}
	case OpMountDevice:
		if out.err == nil {
			v.device, v.found = StateMounted, false
			return
		}
		v.device = afterMount(v.device, v.found, out.err)
	case OpUnmountDevice:
		v.device, v.found = afterUnmount(out.err), v.found && out.err != nil
	}
}

// afterMount returns the state after a failed mount.
func afterMount(was State, found bool, err error) State {
	if was == StateMounted {
		return StateMounted
	}
	switch classOf(err) {
	case ErrTransient:
		return was
	case ErrFinal, ErrTerminal:
		if found {
			return StateUncertain
		}
		return StateNotMounted
	}
	return StateUncertain
}

// afterUnmount returns the state after an unmount.
func afterUnmount(err error) State {
	if err != nil {
		return StateUncertain
	}
	return StateNotMounted
}

// next returns the failure after an operation of this kind that ended with err.
func (f failure) next(kind OperationKind, err error, now time.Time) failure {
	if err == nil {
		return failure{}
	}
	n := failure{kind: kind, count: 1, err: err, terminal: errors.Is(classOf(err), ErrTerminal) && kind.sets()}
	if f.kind == kind {
		n.count += f.count
	}
	n.until = now.Add(retry.Backoff(n.count, firstBackoff, longestBackoff, 0))
	return n
}

// sets reports whether operations of the kind prepare a volume for pods that need it. A terminal
// failure of such an operation holds until the next sync of the pod; a teardown is always retried.
func (k OperationKind) sets() bool { return k != OpUnmount && k != OpUnmountDevice }

// endBackoff permits a retry at once, also after a terminal failure. The count stays, so that the
// next back-off is longer.
func (f failure) endBackoff() failure {
	f.until, f.terminal = time.Time{}, false
	return f
}
