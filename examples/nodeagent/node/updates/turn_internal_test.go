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
