// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestPhaseTransitions lists every transition; all other pairs must change nothing.
func TestPhaseTransitions(t *testing.T) {
	table := map[phase]map[event]phase{
		phaseWaiting: {eventStart: phaseSyncing, eventStop: phaseTerminating},
		phaseSyncing: {
			eventStop: phaseTerminating, eventStopInFlight: phaseStopping,
			eventCompleted: phaseTerminating,
		},
		phaseStopping:    {eventReturned: phaseTerminating},
		phaseTerminating: {eventStopped: phaseTerminated},
		phaseTerminated:  {eventCleaned: phaseFinished},
		phaseFinished:    {},
	}
	for p := phaseWaiting; p <= phaseFinished; p++ {
		for e := eventStart; e <= eventCleaned; e++ {
			want, ok := table[p][e]
			if !ok {
				want = p
			}
			assert.Equal(t, want, p.next(e), "phase %d, event %d", p, e)
			assert.GreaterOrEqual(t, p.next(e), p, "a phase never goes back")
		}
	}
}

// TestRule2EachPhaseHasItsCall pins the method and the exported State of each phase.
func TestRule2EachPhaseHasItsCall(t *testing.T) {
	tests := []struct {
		phase phase
		call  callKind
		state State
	}{
		{phaseWaiting, callNone, StateSync},
		{phaseSyncing, callSyncPod, StateSync},
		{phaseStopping, callNone, StateTerminating},
		{phaseTerminating, callTerminatingPod, StateTerminating},
		{phaseTerminated, callTerminatedPod, StateTerminated},
		{phaseFinished, callNone, StateTerminated},
	}
	for _, test := range tests {
		r := record{phase: test.phase}
		assert.Equal(t, test.call, r.nextCall(), "phase %d", test.phase)
		assert.Equal(t, test.state, test.phase.state(), "phase %d", test.phase)
		if test.call != callNone {
			assert.Equal(t, test.state, test.call.state(), "call %s", test.call)
		}
	}
	orphan := record{phase: phaseTerminating, orphan: &Orphan{}}
	assert.Equal(t, callTerminatingOrphan, orphan.nextCall())
}

func TestWords(t *testing.T) {
	for want, have := range map[string]string{
		"sync": UpdateSync.String(), "update": UpdateUpdate.String(), "create": UpdateCreate.String(),
		"kill": UpdateKill.String(), "UpdateType(9)": UpdateType(9).String(),
		"terminating": StateTerminating.String(), "terminated": StateTerminated.String(), "State(9)": State(9).String(),
		"SyncPod": callSyncPod.String(), "SyncTerminatingPod": callTerminatingPod.String(),
		"SyncTerminatingOrphan": callTerminatingOrphan.String(), "SyncTerminatedPod": callTerminatedPod.String(),
		"none": callNone.String(),
	} {
		assert.Equal(t, want, have)
	}
	assert.Equal(t, "sync", StateSync.String())
}

// String returns the name of the method.
func (k callKind) String() string {
	switch k {
	case callSyncPod:
		return "SyncPod"
	case callTerminatingPod:
		return "SyncTerminatingPod"
	case callTerminatingOrphan:
		return "SyncTerminatingOrphan"
	case callTerminatedPod:
		return "SyncTerminatedPod"
	}
	return "none"
}
