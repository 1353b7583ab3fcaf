// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"fmt"
	"strings"
	"time"
)

// RemoveReason is why an image goes.
type RemoveReason string

// The reasons. The first two are the values of the kubelet's metric image_garbage_collected_total.
const (
	ReasonAge    RemoveReason = "age"    // idle for longer than Policy.MaxAge
	ReasonSpace  RemoveReason = "space"  // the disk is full
	ReasonUnused RemoveReason = "unused" // DeleteUnusedImages
)

// KeepReason is why an image stays.
type KeepReason string

// The reasons, in the order in which they are looked at.
const (
	KeepInUse     KeepReason = "in use"
	KeepHeld      KeepReason = "held"
	KeepPinned    KeepReason = "pinned by the runtime"
	KeepNoID      KeepReason = "the runtime reports no ID"
	KeepProtected KeepReason = "protected"
	KeepTooYoung  KeepReason = "too young"
	KeepNotNeeded KeepReason = "its space is not needed"
	KeepFailed    KeepReason = "its removal failed"
)

// Removal is an image that goes.
type Removal struct {
	Image     Image
	Reason    RemoveReason
	IdleSince time.Time
	NeverUsed bool // IdleSince is when it was detected
}

// Kept is an image that stays.
type Kept struct {
	Image  Image
	Reason KeepReason
	Detail string    // the name by which it is used or held, the pattern that protects it
	Until  time.Time // for KeepTooYoung: when it is old enough
}

// Decisions is what Plan decided: a value that can be printed and compared.
type Decisions struct {
	Goal Goal
	Now  time.Time
	// Capacity, Available, Target and Wanted are bytes: what the image file system has, what is left of it, how much is
	// to be left, and what is missing. UsagePercent is what is not left.
	Capacity, Available, Target, Wanted uint64
	UsagePercent                        int

	Remove []Removal // in this order
	Spare  []Removal // next, in this order, if the images removed had less of their own than their sizes say
	Keep   []Kept    // by name
}

// String is a report for people: a line about the disk and one per image.
func (d Decisions) String() string {
	var out strings.Builder
	switch {
	case d.Goal == GoalUnused:
		out.WriteString("remove every image that nothing needs\n")
	case d.Wanted > 0:
		fmt.Fprintf(&out, "image file system %d %% full, %s available of %s: free %s\n",
			d.UsagePercent, formatBytes(d.Available), formatBytes(d.Capacity), formatBytes(d.Wanted))
	default:
		fmt.Fprintf(&out, "image file system %d %% full, %s available of %s: nothing to free\n",
			d.UsagePercent, formatBytes(d.Available), formatBytes(d.Capacity))
	}
	for _, r := range d.Remove {
		d.line(&out, "remove", r)
	}
	for _, r := range d.Spare {
		d.line(&out, "spare ", r)
	}
	for _, k := range d.Keep {
		fmt.Fprintf(&out, "keep   %s %s: %s", k.Image.Name(), formatBytes(k.Image.Size), k.Reason)
		switch {
		case k.Reason == KeepTooYoung:
			fmt.Fprintf(&out, ", until %s", k.Until.UTC().Format(time.RFC3339))
		case k.Reason == KeepProtected && k.Detail != "":
			fmt.Fprintf(&out, " by %q", k.Detail)
		case k.Detail != "":
			fmt.Fprintf(&out, " as %s", k.Detail)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func (d Decisions) line(out *strings.Builder, verb string, r Removal) {
	since := "last used"
	if r.NeverUsed {
		since = "never used since it came"
	}
	fmt.Fprintf(out, "%s %s %s: %s, %s %s ago\n", verb, r.Image.Name(), formatBytes(r.Image.Size), r.Reason,
		since, d.Now.Sub(r.IdleSince).Round(time.Second))
}
