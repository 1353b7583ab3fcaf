// SPDX-License-Identifier: Apache-2.0

package podworkers

// phase is the stage of a record. A phase only moves forward; forgetting the record is the only way
// back.
type phase uint8

const (
	// phaseWaiting: recorded, but another pod holds its exclusive key. No call.
	phaseWaiting phase = iota
	// phaseSyncing: SyncPod.
	phaseSyncing
	// phaseStopping: termination was requested while a SyncPod call was in flight, and the call has
	// not returned.
	phaseStopping
	// phaseTerminating: SyncTerminatingPod or SyncTerminatingOrphan. SyncPod never runs again.
	phaseTerminating
	// phaseTerminated: no container runs; SyncTerminatedPod.
	phaseTerminated
	// phaseFinished: nothing left to do. The record stays as a tombstone and keeps the UID from
	// running again.
	phaseFinished
)

// event moves a record to its next phase.
type event uint8

const (
	// eventStart: the pod may start, because it has its exclusive key or needs no key.
	eventStart event = iota
	// eventStop: termination requested, no SyncPod call in flight.
	eventStop
	// eventStopInFlight: termination requested, a SyncPod call in flight.
	eventStopInFlight
	// eventReturned: the SyncPod call that was in flight when termination was requested has
	// returned.
	eventReturned
	// eventCompleted: SyncPod reported that all containers have ended for good.
	eventCompleted
	// eventStopped: SyncTerminatingPod returned nil.
	eventStopped
	// eventCleaned: SyncTerminatedPod returned nil.
	eventCleaned
)

// next is the transition function. It returns the phase after e, or p itself if e does not apply in
// p.
func (p phase) next(e event) phase {
	switch {
	case p == phaseWaiting && e == eventStart:
		return phaseSyncing
	case p == phaseSyncing && e == eventStopInFlight:
		return phaseStopping
	case p <= phaseSyncing && e == eventStop, p == phaseSyncing && e == eventCompleted:
		return phaseTerminating
	case p == phaseStopping && e == eventReturned:
		return phaseTerminating
	case p == phaseTerminating && e == eventStopped:
		return phaseTerminated
	case p == phaseTerminated && e == eventCleaned:
		return phaseFinished
	}
	return p
}

// state returns the exported State of p.
func (p phase) state() State {
	switch p {
	case phaseWaiting, phaseSyncing:
		return StateSync
	case phaseStopping, phaseTerminating:
		return StateTerminating
	}
	return StateTerminated
}

// callKind is a method of the syncer.
type callKind uint8

const (
	callNone callKind = iota
	callSyncPod
	callTerminatingPod
	callTerminatingOrphan
	callTerminatedPod
)

// state returns the State during a call of the method.
func (k callKind) state() State {
	switch k {
	case callTerminatingPod, callTerminatingOrphan:
		return StateTerminating
	case callTerminatedPod:
		return StateTerminated
	}
	return StateSync
}
