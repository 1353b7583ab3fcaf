// SPDX-License-Identifier: Apache-2.0

package updates

import "time"

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

// turn decides until nothing changes, and returns the error of a record that could not be stored.
// The caller then calls turn again later.
func (u *unit) turn(w world, now time.Time) (err error) {
	for {
		f := w.facts(&u.record)
		f.Started = !u.started
		next, actions := Decide(u.record, f, now)
		same := next.equal(&u.record)
		if !next.equal(&u.stored) {
			if err = w.save(&next); err == nil {
				u.stored = next.clone()
			} else if !next.mayRunUnsaved() {
				return err
			}
		}
		u.record, u.started = next, true
		for _, a := range actions {
			w.act(a)
		}
		if next.Phase != Staging {
			w.act(Action{Kind: StopStaging})
		}
		if same {
			return err
		}
	}
}
