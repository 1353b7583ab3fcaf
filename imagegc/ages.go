// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"time"

	"github.com/keelson-dev/keelson/internal/sorted"
)

// ages are the records of all images in the last list, by key.
type ages map[string]age

type age struct {
	Record
	used bool // in use at the last inspection
}

// next returns the records after an inspection. needed reports whether the image at an index is
// used or held. Absent images are forgotten. changed reports whether anything besides the times of
// use has changed.
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

// restore returns the ages from saved records. A time in the future becomes now, because the clock
// was set back by an unknown duration.
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

// records returns the records to save, sorted by ID. Times are computed back from now, so that they
// are correct for the next process even if the clock was set meanwhile.
func (a ages) records(now time.Time) []Record {
	wall := func(t time.Time) time.Time {
		if !t.IsZero() {
			t = now.Round(0).Add(-now.Sub(t))
		}
		return t
	}
	out := make([]Record, 0, len(a))
	for _, r := range a {
		if r.ID == "" {
			continue
		}
		r.FirstDetected, r.LastUsed = wall(r.FirstDetected), wall(r.LastUsed)
		out = append(out, r.Record)
	}
	sorted.By(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Handler, b.Handler))
	})
	return out
}
