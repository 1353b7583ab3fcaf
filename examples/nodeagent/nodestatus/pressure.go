// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Usage is how much of what all pods share is left. Zero of what there is means
// that it is unknown.
type Usage struct {
	MemoryBytes, MemoryAvailableBytes int64
	Disks                             []Disk
	ProcessIDs, ProcessIDsInUse       int64
}

// Disk is a file system that pods or images fill. Inodes may be zero: some file
// systems have no such limit.
type Disk struct {
	Bytes, AvailableBytes int64
	AvailablePercentMin   int64 // below which it is under pressure
	Inodes, InodesFree    int64
}

// The kubelet's default thresholds for hard eviction (1.36).
const (
	// MinMemoryAvailable is the memory below which a node is under pressure.
	MinMemoryAvailable = 100 << 20
	// MinNodeDiskPercent is the share of the file system of pods' files below
	// which a node is under pressure, MinImageDiskPercent that of images.
	MinNodeDiskPercent, MinImageDiskPercent = 10, 15
	// MinInodesPercent is the share of free inodes below which it is.
	MinInodesPercent = 5
	// MinProcessIDsPercent is that of process IDs. The kubelet has no default; it
	// is a hint to the scheduler here, as all of these.
	MinProcessIDsPercent = 5
)

// pressureHold is for how long a pressure is told after it was last seen, so that
// a node at the limit does not flap.
const pressureHold = 5 * time.Minute

type pressure struct {
	of    v1.NodeConditionType
	under bool
}

// pressures judges usage. A kind of which nothing is known is left out.
func (u Usage) pressures() (all []pressure) {
	if u.MemoryBytes > 0 {
		all = append(all, pressure{v1.NodeMemoryPressure, u.MemoryAvailableBytes < MinMemoryAvailable})
	}
	if len(u.Disks) > 0 {
		all = append(all, pressure{v1.NodeDiskPressure, slices.ContainsFunc(u.Disks, Disk.short)})
	}
	if u.ProcessIDs > 0 {
		all = append(all, pressure{v1.NodePIDPressure, below(u.ProcessIDs-u.ProcessIDsInUse, u.ProcessIDs, MinProcessIDsPercent)})
	}
	return all
}

func (d Disk) short() bool {
	return below(d.AvailableBytes, d.Bytes, d.AvailablePercentMin) || below(d.InodesFree, d.Inodes, MinInodesPercent)
}

// below reports whether part is less than percent of whole, if there is a whole.
func below(part, whole, percent int64) bool {
	return whole > 0 && float64(part)*100 < float64(whole)*float64(percent)
}

// held are the pressures and when each was last seen.
type held map[v1.NodeConditionType]time.Time

// hold notes what was seen, and keeps a pressure that ended a short while ago.
func (h held) hold(seen []pressure, now time.Time) []pressure {
	for i, p := range seen {
		last, known := h[p.of]
		switch {
		case p.under:
			h[p.of] = now
		case known && now.Sub(last) < pressureHold:
			seen[i].under = true
		default:
			delete(h, p.of)
		}
	}
	return seen
}

func (p pressure) condition() v1.NodeCondition {
	words := map[v1.NodeConditionType][2]string{ // reason and text, without and with pressure: the kubelet's reasons
		v1.NodeMemoryPressure: {"KubeletHasSufficientMemory", "KubeletHasInsufficientMemory"},
		v1.NodeDiskPressure:   {"KubeletHasNoDiskPressure", "KubeletHasDiskPressure"},
		v1.NodePIDPressure:    {"KubeletHasSufficientPID", "KubeletHasInsufficientPID"},
	}[p.of]
	if p.under {
		return v1.NodeCondition{Type: p.of, Status: v1.ConditionTrue, Reason: words[1], Message: "less is left than the node needs"}
	}
	return v1.NodeCondition{Type: p.of, Status: v1.ConditionFalse, Reason: words[0], Message: "enough is left"}
}
