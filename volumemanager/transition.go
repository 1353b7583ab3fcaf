// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// outcome is how an operation went.
type outcome struct {
	err error
	// mounted is what SetUp returned.
	mounted Mounted
	// devicePath is what WaitForAttach returned.
	devicePath string
	// grown is what the volume was expanded to; zero if it was not. refused: the
	// plugin says that it cannot be.
	grown   resource.Quantity
	refused bool
	// found: SetUp was called for a volume that containers may use already.
	found bool
	// alive: the pod turned out not to be gone, so nothing was torn down.
	alive bool
}

// settle folds the outcome of o into v. The caller has made sure that o is the
// operation that v or the row was waiting for.
//
//	              ok          transient   final, terminal         else
//	mount         mounted     as it was   not mounted, but stays  uncertain
//	                                      uncertain if found
//	remount       mounted     mounted     mounted                 mounted
//	unmount       not mounted uncertain   uncertain               uncertain
//
// The same holds for the device. Found means: after a restart of the agent, and
// not set up since; containers may use it whatever SetUp says.
func (v *volume) settle(o *operation, out outcome, now time.Time, wait backoff) {
	r := v.rows[o.uid]
	if o.alone {
		v.busy = nil
	} else {
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
		r.failure = r.failure.next(o.kind, out.err, now, wait)
		r.settleSetUp(o, out)
	case OpUnmount:
		if out.alive {
			if r.desire == DesireGone {
				r.desire = DesireKept
			}
			return
		}
		r.failure = r.failure.next(o.kind, out.err, now, wait)
		r.state, r.found = afterUnmount(out.err), r.found && out.err != nil
	default:
		v.failure = v.failure.next(o.kind, out.err, now, wait)
		v.settleDevice(o, out)
	}
}

// settleSetUp notes how a SetUp went.
func (r *row) settleSetUp(o *operation, out outcome) {
	r.tried = max(r.tried, o.refresh)
	if out.err == nil {
		r.done = max(r.done, o.refresh)
		r.state, r.found, r.mounted = StateMounted, false, out.mounted
		return
	}
	if out.found && !r.found {
		r.state, r.found = StateUncertain, true
	}
	r.state = afterMount(r.state, r.found, out.err)
}

// settleDevice notes how an operation on the whole volume went.
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

// afterMount is the state after a mount that failed.
func afterMount(was State, found bool, err error) State {
	if was == StateMounted {
		return StateMounted
	}
	switch classOf(err) {
	case ErrTransient:
		return was
	case ErrFinal, ErrTerminal:
		if was == StateUncertain && found {
			return StateUncertain
		}
		return StateNotMounted
	}
	return StateUncertain
}

// afterUnmount is the state after an unmount.
func afterUnmount(err error) State {
	if err != nil {
		return StateUncertain
	}
	return StateNotMounted
}

// next is the failure after an operation of this kind ended with err.
func (f failure) next(kind OperationKind, err error, now time.Time, wait backoff) failure {
	if err == nil {
		return failure{}
	}
	n := failure{kind: kind, count: 1, err: err, terminal: errors.Is(classOf(err), ErrTerminal) && kind.sets()}
	if f.kind == kind {
		n.count += f.count
	}
	n.until = now.Add(wait.after(n.count))
	return n
}

// sets reports whether the kind is for pods that need a volume, whose next sync
// tries again what is terminal. What is to be undone is always tried again.
func (k OperationKind) sets() bool { return k != OpUnmount && k != OpUnmountDevice }

// excuse lets a failed operation of a volume that is needed be tried again at once.
// The count stays, so that the next back-off is longer.
func (f failure) excuse() failure {
	f.until, f.terminal = time.Time{}, false
	return f
}
