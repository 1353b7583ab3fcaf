// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Usage is the usage of resources shared by all pods. A total of zero is unknown.
type Usage struct {
	MemoryBytes, MemoryAvailableBytes int64
	Disks                             []Disk
	ProcessIDs, ProcessIDsInUse       int64
}

// Disk is a file system with files of pods or images. Inodes is zero on file systems without a
// limit of inodes.
type Disk struct {
	Bytes, AvailableBytes int64
	AvailablePercentMin   int64 // disk pressure below this percentage
	Inodes, InodesFree    int64
}

// The kubelet's default thresholds for hard eviction (1.36).
const (
	// minMemoryAvailable is the available memory, in bytes, below which a node has memory pressure.
	minMemoryAvailable = 100 << 20
	// MinNodeDiskPercent is the percentage of available space below which a node has disk pressure,
	// for file systems with files of pods. minImageDiskPercent is the percentage for file systems
	// with images.
	MinNodeDiskPercent, minImageDiskPercent = 10, 15
	// minInodesPercent is the percentage of free inodes below which a node has disk pressure.
	minInodesPercent = 5
	// minProcessIDsPercent is the percentage of free process IDs below which a node has PID
	// pressure. The kubelet has no default. Here all thresholds are only hints to the scheduler.
	minProcessIDsPercent = 5
)

// pressureHold is how long a pressure condition stays true after the pressure has ended, so that a
// node at the threshold does not flap.
const pressureHold = 5 * time.Minute

type pressure struct {
	of    v1.NodeConditionType
	under bool
}

// pressures evaluates the usage. Resources without data are left out.
func (u Usage) pressures() (all []pressure) {
	if u.MemoryBytes > 0 {
		all = append(all, pressure{v1.NodeMemoryPressure, u.MemoryAvailableBytes < minMemoryAvailable})
	}
	if len(u.Disks) > 0 {
		all = append(all, pressure{v1.NodeDiskPressure, slices.ContainsFunc(u.Disks, Disk.short)})
	}
	if u.ProcessIDs > 0 {
		all = append(all, pressure{v1.NodePIDPressure, below(u.ProcessIDs-u.ProcessIDsInUse, u.ProcessIDs, minProcessIDsPercent)})
	}
	return all
}

func (d Disk) short() bool {
	return below(d.AvailableBytes, d.Bytes, d.AvailablePercentMin) || below(d.InodesFree, d.Inodes, minInodesPercent)
}

// below reports whether part is less than percent of whole. It is false if whole is zero.
func below(part, whole, percent int64) bool {
	return whole > 0 && float64(part)*100 < float64(whole)*float64(percent)
}

// held maps each pressure to the time of its last observation.
type held map[v1.NodeConditionType]time.Time

// hold records the observed pressures, and prolongs a pressure that ended less than pressureHold
// ago.
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

// pressureWords holds the kubelet's reason and message of each condition, without and with pressure.
var pressureWords = map[v1.NodeConditionType][2]struct{ reason, message string }{
	v1.NodeMemoryPressure: {
		{"KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
		{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
	},
	v1.NodeDiskPressure: {
		{"KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{"KubeletHasDiskPressure", "kubelet has disk pressure"},
	},
	v1.NodePIDPressure: {
		{"KubeletHasSufficientPID", "kubelet has sufficient PID available"},
		{"KubeletHasInsufficientPID", "kubelet has insufficient PID available"},
	},
}

func (p pressure) condition() v1.NodeCondition {
	status, said := v1.ConditionFalse, pressureWords[p.of][0]
	if p.under {
		status, said = v1.ConditionTrue, pressureWords[p.of][1]
	}
	return v1.NodeCondition{Type: p.of, Status: status, Reason: said.reason, Message: said.message}
}
