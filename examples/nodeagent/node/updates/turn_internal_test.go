// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// meeting is a world whose first save returns when the saves of all units are under way.
type meeting struct {
	once sync.Once
	all  *sync.WaitGroup
	err  error
	acts int
}

func (m *meeting) facts(*Record) Facts { return Facts{Desired: "new", Listed: true} }

func (m *meeting) save(*Record) error {
	m.once.Do(func() {
		m.all.Done()
		m.all.Wait()
	})
	return m.err
}

func (m *meeting) act(Action) { m.acts++ }

// TestRecordsOfARoundAreStoredTogether: the records of several units are stored at the same time. The
// failure of a record concerns its unit alone.
func TestRecordsOfARoundAreStoredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		full := errors.New("the disk is full")
		worlds := []*meeting{{all: &all}, {all: &all, err: full}, {all: &all}}
		all.Add(len(worlds))
		var turns []*turn
		for _, w := range worlds {
			turns = append(turns, &turn{unit: &unit{}, world: w})
		}
		takeTurns(turns, time.Now())
		for i, turn := range turns {
			assert.Equal(t, worlds[i].err, turn.err)
			assert.Equal(t, worlds[i].err == nil, turn.record.equal(&turn.stored) && turn.stored.Next == "new")
		}
		assert.Positive(t, worlds[0].acts)
		assert.Equal(t, worlds[0].acts, worlds[2].acts)
	})
}

// listed is a world with a version that the source lists. It keeps the phases of the saved records.
type listed struct {
	desired string
	health  Health
	saved   []Phase
}

func (l *listed) facts(*Record) Facts {
	return Facts{Desired: l.desired, Listed: true, Deadline: time.Minute, Health: l.health}
}

func (l *listed) save(r *Record) error {
	l.saved = append(l.saved, r.Phase)
	return nil
}

func (l *listed) act(Action) {}

// TestFirstVersionIsStoredAfterItsGate: the first version of a unit has no predecessor that a record
// could bring back, and 1,000 new pods do not wait for their records. A second version is stored first.
func TestFirstVersionIsStoredAfterItsGate(t *testing.T) {
	w, u, now := &listed{desired: "first"}, &unit{}, time.Now()
	assert.NoError(t, u.turn(w, now))
	assert.Equal(t, Proving, u.record.Phase)
	assert.Empty(t, w.saved)
	w.desired = "corrected" // before the gate
	assert.NoError(t, u.turn(w, now))
	assert.Empty(t, w.saved)
	w.health = Health{Hash: "corrected", Passed: true}
	assert.NoError(t, u.turn(w, now))
	assert.Equal(t, []Phase{Steady}, w.saved)
	w.desired = "second"
	assert.NoError(t, u.turn(w, now))
	assert.Equal(t, []Phase{Steady, Staging}, w.saved)
}
