// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"sync"
	"time"
)

// unit is a record in memory, with the record that is on the disk.
type unit struct {
	record, stored Record
	started        bool // Decide has been called
}

// world carries out the decisions about a unit.
type world interface {
	// facts returns the observations, where Health is about the version that r runs.
	facts(r *Record) Facts
	// save stores the record. After an error the disk has the old or the new record.
	save(r *Record) error
	// act carries out an action. It does not fail. An action that is not yet possible is repeated.
	act(a Action)
}

// turn is the turn of one of several units.
type turn struct {
	*unit
	world
	err error // of a record that could not be stored

	next    Record
	actions []Action
}

// savesAtOnce is the number of records that are stored at the same time.
const savesAtOnce = 64

// takeTurns takes the turns of several units. The records of a round of decisions are stored at the same
// time, because a disk syncs many files as fast as a single one. Everything else happens in the order of
// the turns.
func takeTurns(turns []*turn, now time.Time) {
	for len(turns) > 0 {
		var unsaved []*turn
		for _, t := range turns {
			f := t.facts(&t.record)
			f.Started = !t.started
			if t.next, t.actions = Decide(t.record, f, now); !t.next.equal(&t.stored) && !t.next.isFirstTry(&t.stored) {
				unsaved = append(unsaved, t)
			}
		}
		atOnce(unsaved, func(t *turn) {
			if t.err = t.save(&t.next); t.err == nil {
				t.stored = t.next.clone()
			}
		})
		var further []*turn
		for _, t := range turns {
			if t.carryOut() {
				further = append(further, t)
			}
		}
		turns = further
	}
}

// carryOut carries out the decision, and reports whether another decision may follow.
func (t *turn) carryOut() (further bool) {
	if t.err != nil && !t.next.equal(&t.stored) && !t.next.mayRunUnsaved() {
		return false
	}
	same := t.next.equal(&t.record)
	t.record, t.started = t.next, true
	for _, a := range t.actions {
		t.act(a)
	}
	if t.next.Phase != Staging {
		t.act(Action{Kind: StopStaging})
	}
	return !same
}

// atOnce calls f for all, at most savesAtOnce at the same time.
func atOnce[T any](all []T, f func(T)) {
	if len(all) == 1 {
		f(all[0])
		return
	}
	var calls sync.WaitGroup
	slots := make(chan struct{}, savesAtOnce)
	for _, v := range all {
		slots <- struct{}{}
		calls.Go(func() {
			f(v)
			<-slots
		})
	}
	calls.Wait()
}
