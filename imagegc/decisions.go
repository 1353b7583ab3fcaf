// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"fmt"
	"strings"
	"time"
)

// RemoveReason is the reason for removing an image.
type RemoveReason string

// The reasons for removal. The first two are values of the kubelet's metric
// image_garbage_collected_total.
const (
	ReasonAge    RemoveReason = "age"    // idle for longer than Policy.MaxAge
	ReasonSpace  RemoveReason = "space"  // the disk is full
	ReasonUnused RemoveReason = "unused" // DeleteUnusedImages
)

// KeepReason is the reason for keeping an image.
type KeepReason string

// The reasons for keeping an image, in the order of their checks.
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

// Removal is the decision to remove an image.
type Removal struct {
	Image     Image
	Reason    RemoveReason
	IdleSince time.Time
	NeverUsed bool // IdleSince is the time of detection
}

// Kept is the decision to keep an image.
type Kept struct {
	Image  Image
	Reason KeepReason
	Detail string    // the name in use or in a lease, or the protecting pattern
	Until  time.Time // for KeepTooYoung: the end of MinAge
}

// Decisions is the result of Plan. It can be printed and compared.
type Decisions struct {
	Goal Goal
	Now  time.Time
	// Capacity and Available are the size and the free space of the image file system. Target is
	// the free space to reach, and Wanted is the missing part of Target. All four are bytes.
	// UsagePercent is the share of Capacity outside Available.
	Capacity, Available, Target, Wanted uint64
	UsagePercent                        int

	Remove []Removal // in order of removal
	Spare  []Removal // removed next, in this order, if the removed images freed less than their sizes
	Keep   []Kept    // sorted by name
}

// String returns a report: a line for the disk and a line per image.
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
