// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Goal is what a pass is for.
type Goal uint8

// The goals.
const (
	// GoalThreshold is to get below Policy.LowPercent if HighPercent is reached.
	GoalThreshold Goal = iota
	// GoalUnused is to remove all that may be removed.
	GoalUnused
)

// String returns the goal in small letters.
func (g Goal) String() string {
	if g == GoalUnused {
		return "unused"
	}
	return "threshold"
}

// ImageState is an image and what is known of it.
type ImageState struct {
	Image  Image
	Record Record
	UsedAs string // the name by which a container uses it; empty if none does
	HeldAs string // the reference by which it is held; empty if nobody holds it
}

// PlanInput is all that Plan looks at. Nothing of it is written.
type PlanInput struct {
	Goal   Goal
	Policy Policy // as it is: no defaults are filled in
	Now    time.Time
	Images []ImageState
	// Capacity and Available are the image file system's, in bytes; Available is what is left for images, without what
	// the file system reserves. They do not matter for GoalUnused.
	Capacity, Available uint64
	// Target is how much is to be Available, if that was decided before: a pass that began above HighPercent goes on
	// to LowPercent. 0: HighPercent decides.
	Target uint64
}

// Plan decides what becomes of every image. The order of the removals is: what has been idle longest; of those, what was
// detected first; then the biggest; then by ID and handler. Images over MaxAge are the first.
//
// Never removed are, whatever the goal: an image in use, held, pinned, protected, younger than MinAge, or without an ID.
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
	slices.SortFunc(candidates, order)

	var sizes uint64
	old := 0 // how many are over MaxAge: the first ones, as it is the order
	for in.Policy.MaxAge > 0 && old < len(candidates) && candidates[old].idle > in.Policy.MaxAge {
		s := candidates[old].ImageState
		d.Remove = append(d.Remove, removal(s, ReasonAge))
		sizes += s.Image.Size
		old++
	}
	rest := candidates[old:]
	switch {
	case in.Goal == GoalUnused:
		d.Remove = slices.Grow(d.Remove, len(rest))
	case d.Wanted > 0:
		d.Spare = make([]Removal, 0, len(rest))
	default:
		d.Keep = slices.Grow(d.Keep, len(rest))
	}
	for _, c := range rest {
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
	slices.SortFunc(kept, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.Image.Name(), b.Image.Name()), cmp.Compare(a.Image.ID, b.Image.ID),
			cmp.Compare(a.Image.Handler, b.Image.Handler))
	})
}

// candidate is an image that may go. Its ages are reckoned once, and from one moment: times with a monotonic clock and
// times without, which a restart leaves, have no order among themselves.
type candidate struct {
	*ImageState
	idle, age time.Duration
}

// order is that of removals.
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

// keeps reports whether s must stay, and why.
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
		return kept, false
	}
	return kept, true
}

// measure says what is wanted.
func (d *Decisions) measure(in PlanInput) {
	if in.Goal == GoalUnused {
		return
	}
	d.Capacity, d.Available = in.Capacity, min(in.Available, in.Capacity)
	d.UsagePercent = usagePercent(d.Capacity, d.Available)
	d.Target = in.Target
	if d.Target == 0 && in.Capacity > 0 && d.UsagePercent >= in.Policy.HighPercent {
		d.Target = share(in.Capacity, 100-in.Policy.LowPercent)
	}
	if d.Target > d.Available {
		d.Wanted = d.Target - d.Available
	}
}

// usagePercent counts what is not available as used, so that what the file system reserves counts, too. It is rounded
// up, as in the kubelet.
func usagePercent(capacity, available uint64) int {
	if capacity == 0 {
		return 0
	}
	hi, lo := bits.Mul64(min(available, capacity), 100)
	free, _ := bits.Div64(hi, lo, capacity)
	return 100 - int(free)
}

// share is percent of n, rounded down.
func share(n uint64, percent int) uint64 {
	hi, lo := bits.Mul64(n, uint64(percent))
	q, _ := bits.Div64(hi, lo, 100)
	return q
}

// String is one line, for logs.
func (r Removal) String() string {
	return fmt.Sprintf("%s (%s, %s)", r.Image.Name(), formatBytes(r.Image.Size), r.Reason)
}
