// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/sorted"
)

// Goal is the purpose of a pass.
type Goal uint8

// The goals.
const (
	// GoalThreshold frees space down to Policy.LowPercent if HighPercent is reached.
	GoalThreshold Goal = iota
	// GoalUnused removes every removable image.
	GoalUnused
)

// String returns the goal in lower case.
func (g Goal) String() string {
	if g == GoalUnused {
		return "unused"
	}
	return "threshold"
}

// ImageState is an image with its record and its users.
type ImageState struct {
	Image  Image
	Record Record
	UsedAs string // the name used by a container, or empty
	HeldAs string // the first reference of the leases in alphabetical order, or empty
}

// PlanInput is the complete input of Plan, which does not modify it.
type PlanInput struct {
	Goal   Goal
	Policy Policy // used as given: no defaults are filled in
	Now    time.Time
	Images []ImageState
	// Capacity and Available are bytes of the image file system. Available excludes reserved
	// blocks. GoalUnused ignores both.
	Capacity, Available uint64
	// Target is the Available to reach, if already decided: a pass that began above HighPercent
	// continues to LowPercent. With 0, HighPercent decides.
	Target uint64
}

// Plan decides for every image whether to remove it. Removals are ordered by idle time, the longest
// first, then by age, the oldest first, then by size, the biggest first, then by ID and handler.
// Images idle for longer than MaxAge come first.
//
// Images in use, held, pinned, protected, younger than MinAge, or without an ID stay for every
// goal.
func Plan(in PlanInput) Decisions {
	d := Decisions{Goal: in.Goal, Now: in.Now}
	d.measure(in)
	candidates := make([]candidate, 0, len(in.Images))
	protection := newProtection(in.Policy.Protected)
	for i := range in.Images {
		s := &in.Images[i]
		if kept, keep := keeps(in, protection, s); keep {
			d.Keep = append(d.Keep, kept)
		} else {
			candidates = append(candidates, candidate{s, in.Now.Sub(s.Record.IdleSince()), in.Now.Sub(s.Record.FirstDetected)})
		}
	}
	sorted.By(candidates, order)

	var sizes uint64
	old := 0 // number of candidates over MaxAge, which sort first
	for in.Policy.MaxAge > 0 && old < len(candidates) && candidates[old].idle > in.Policy.MaxAge {
		s := candidates[old].ImageState
		d.Remove = append(d.Remove, removal(s, ReasonAge))
		sizes += s.Image.Size
		old++
	}
	for _, c := range candidates[old:] {
		s := c.ImageState
		switch {
		case in.Goal == GoalUnused:
			d.Remove = append(d.Remove, removal(s, ReasonUnused))
		case d.Wanted == 0:
			d.Keep = append(d.Keep, Kept{Image: s.Image, Reason: KeepNotNeeded})
		case sizes < d.Wanted:
			d.Remove = append(d.Remove, removal(s, ReasonSpace))
			sizes += s.Image.Size
		default:
			d.Spare = append(d.Spare, removal(s, ReasonSpace))
		}
	}
	sortKept(d.Keep)
	return d
}

func sortKept(kept []Kept) {
	sorted.By(kept, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.Image.Name(), b.Image.Name()), cmp.Compare(a.Image.ID, b.Image.ID),
			cmp.Compare(a.Image.Handler, b.Image.Handler))
	})
}

// candidate is a removable image. Both ages are computed once from the same time, because times
// with a monotonic clock do not compare consistently with times restored from a Store.
type candidate struct {
	*ImageState
	idle, age time.Duration
}

// order compares two candidates in order of removal.
func order(a, b candidate) int {
	switch {
	case a.idle != b.idle:
		return cmp.Compare(b.idle, a.idle)
	case a.age != b.age:
		return cmp.Compare(b.age, a.age)
	case a.Image.Size != b.Image.Size:
		return cmp.Compare(b.Image.Size, a.Image.Size)
	}
	return cmp.Or(strings.Compare(a.Image.ID, b.Image.ID), strings.Compare(a.Image.Handler, b.Image.Handler))
}

func removal(s *ImageState, why RemoveReason) Removal {
	return Removal{Image: s.Image, Reason: why, IdleSince: s.Record.IdleSince(), NeverUsed: s.Record.LastUsed.IsZero()}
}

// keeps reports whether s must stay, and the reason.
func keeps(in PlanInput, protection *protection, s *ImageState) (Kept, bool) {
	kept := Kept{Image: s.Image}
	switch {
	case s.UsedAs != "":
		kept.Reason, kept.Detail = KeepInUse, s.UsedAs
	case s.HeldAs != "":
		kept.Reason, kept.Detail = KeepHeld, s.HeldAs
	case s.Image.Pinned:
		kept.Reason = KeepPinned
	case s.Image.ID == "":
		kept.Reason = KeepNoID
	default:
		if pattern := protection.by(&s.Image); pattern != "" {
			kept.Reason, kept.Detail = KeepProtected, pattern
			return kept, true
		}
		if in.Policy.Protect != nil && in.Policy.Protect(s.Image) {
			kept.Reason = KeepProtected
			return kept, true
		}
		if in.Now.Sub(s.Record.FirstDetected) < in.Policy.MinAge {
			kept.Reason, kept.Until = KeepTooYoung, s.Record.FirstDetected.Add(in.Policy.MinAge)
			return kept, true
		}
		return Kept{}, false
	}
	return kept, true
}

// measure computes the target and the wanted bytes.
func (d *Decisions) measure(in PlanInput) {
	if in.Goal == GoalUnused {
		return
	}
	d.Capacity, d.Available = in.Capacity, min(in.Available, in.Capacity)
	d.UsagePercent = usagePercent(d.Capacity, d.Available)
	d.Target = in.Target
	if d.Target == 0 && d.UsagePercent >= in.Policy.HighPercent {
		d.Target = share(in.Capacity, 100-in.Policy.LowPercent)
	}
	d.Wanted = max(d.Target, d.Available) - d.Available
}

// usagePercent returns the share of capacity that is not available, rounded up as in the kubelet.
// Reserved blocks count as used.
func usagePercent(capacity, available uint64) int {
	if capacity == 0 {
		return 0
	}
	hi, lo := bits.Mul64(min(available, capacity), 100)
	free, _ := bits.Div64(hi, lo, capacity)
	return 100 - int(free)
}

// share returns percent of n, rounded down.
func share(n uint64, percent int) uint64 {
	hi, lo := bits.Mul64(n, uint64(percent))
	q, _ := bits.Div64(hi, lo, 100)
	return q
}

// String returns a single line for logs.
func (r Removal) String() string {
	return fmt.Sprintf("%s (%s, %s)", r.Image.Name(), formatBytes(r.Image.Size), r.Reason)
}
