// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func none(int) bool { return false }

func all(int) bool { return true }

// An image is identified by its ID and its handler: the same ID with two handlers has separate
// ages.
func TestAgesOfHandlers(t *testing.T) {
	now := time.Unix(1000, 0)
	images := []Image{{ID: "b"}, {ID: "a", Handler: "kata"}, {ID: "a", Handler: "gvisor"}, {ID: "a"}}
	known, changed := ages(nil).next(images, none, now)
	assert.True(t, changed)
	assert.Len(t, known, 4)
	records := known.records(now)
	for i := range records {
		records[i].FirstDetected = time.Time{}
	}
	assert.Equal(t, []Record{{ID: "a"}, {ID: "a", Handler: "gvisor"}, {ID: "a", Handler: "kata"}, {ID: "b"}}, records)

	later := now.Add(time.Hour)
	known, changed = known.next(images, func(i int) bool { return images[i].Handler == "kata" }, later)
	assert.True(t, changed)
	assert.Equal(t, later, known[key("a", "kata")].LastUsed)
	assert.Zero(t, known[key("a", "gvisor")].LastUsed)
	assert.Zero(t, known["a"].LastUsed)
}

// The records have changed if an image came, went, was replaced, or began or ceased to be used.
func TestAgesHaveChanged(t *testing.T) {
	now := time.Unix(1000, 0)
	one := []Image{{ID: "a"}}
	known, _ := ages(nil).next(one, none, now)
	for name, tc := range map[string]struct {
		images []Image
		needed func(int) bool
		want   bool
	}{
		"the same":      {one, none, false},
		"another image": {[]Image{{ID: "b"}}, none, true},
		"one more":      {[]Image{{ID: "a"}, {ID: "b"}}, none, true},
		"none":          {nil, none, true},
		"in use":        {one, all, true},
	} {
		_, changed := known.next(tc.images, tc.needed, now)
		assert.Equal(t, tc.want, changed, name)
	}
	used, _ := known.next(one, all, now)
	_, changed := used.next(one, all, now.Add(time.Hour))
	assert.False(t, changed, "still in use")
}

// Impossible records are rejected: an image without a time would be the oldest of all.
func TestRestoreOfRecords(t *testing.T) {
	now := time.Unix(1000, 0)
	known := restore([]Record{
		{ID: "whole", FirstDetected: now.Add(-2 * time.Hour), LastUsed: now.Add(-time.Hour)},
		{ID: "never used", FirstDetected: now.Add(-2 * time.Hour)},
		{ID: "no time", LastUsed: now},
		{FirstDetected: now.Add(-time.Hour)},
		{ID: "of the future", Handler: "kata", FirstDetected: now.Add(time.Hour), LastUsed: now.Add(2 * time.Hour)},
	}, now)
	assert.Equal(t, []Record{
		{ID: "never used", FirstDetected: now.Add(-2 * time.Hour)},
		{ID: "of the future", Handler: "kata", FirstDetected: now, LastUsed: now},
		{ID: "whole", FirstDetected: now.Add(-2 * time.Hour), LastUsed: now.Add(-time.Hour)},
	}, known.records(now))
	assert.Contains(t, known, key("of the future", "kata"))
	assert.Len(t, known, 3, "none without an ID")
}

// Saved times are computed back from now, so that a clock set meanwhile makes no image older or
// younger.
func TestRecordsAreReckonedBack(t *testing.T) {
	began := time.Now() // with the monotonic clock
	known, _ := ages(nil).next([]Image{{ID: "a"}, {}}, none, began)
	known[""] = age{Record: Record{FirstDetected: began}}
	// Now is an hour later by both clocks. Saved times use the current wall clock.
	now := began.Add(time.Hour)
	records := known.records(now)
	assert.Len(t, records, 1, "no image without an ID is saved")
	assert.Equal(t, now.Round(0).Add(-time.Hour), records[0].FirstDetected)
	assert.True(t, records[0].LastUsed.IsZero(), "an image that was never used stays so")
	saved := restore(records, now)
	assert.True(t, saved["a"].LastUsed.IsZero())
}
