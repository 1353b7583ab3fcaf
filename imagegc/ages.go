// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"slices"
	"time"
)

// ages are the records of all images that were listed last, by key.
type ages map[string]age

type age struct {
	Record
	used bool // when it was seen last
}

// next returns the records after a look at images, of which those at the places that needed says are used or held.
// Images that are not there any more are forgotten. changed reports whether more than times of use has changed.
func (a ages) next(images []Image, needed func(i int) bool, now time.Time) (out ages, changed bool) {
	out = make(ages, len(images))
	for i := range images {
		image := &images[i]
		k := image.key()
		record, known := a[k]
		if !known {
			record.Record = Record{ID: image.ID, Handler: image.Handler, FirstDetected: now}
		}
		used := needed(i)
		changed = changed || !known || used != record.used
		record.used = used
		if used {
			record.LastUsed = now
		}
		out[k] = record
	}
	return out, changed || len(out) != len(a)
}

// restore returns records as they were saved. What is said to come from the future counts from now: the clock has been
// set back, and nobody knows by how much.
func restore(records []Record, now time.Time) ages {
	out := make(ages, len(records))
	for _, r := range records {
		if r.ID == "" || r.FirstDetected.IsZero() {
			continue
		}
		if r.FirstDetected.After(now) {
			r.FirstDetected = now
		}
		if r.LastUsed.After(now) {
			r.LastUsed = now
		}
		out[key(r.ID, r.Handler)] = age{Record: r}
	}
	return out
}

// records returns what is to be saved, by ID. Times are reckoned back from now, so that they make sense to the next
// process even if the clock was set since they were taken.
func (a ages) records(now time.Time) []Record {
	wall := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return now.Round(0).Add(-now.Sub(t))
	}
	out := make([]Record, 0, len(a))
	for _, r := range a {
		if r.ID == "" {
			continue
		}
		r.FirstDetected, r.LastUsed = wall(r.FirstDetected), wall(r.LastUsed)
		out = append(out, r.Record)
	}
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Handler, b.Handler))
	})
	return out
}
