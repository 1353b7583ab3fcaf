// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is everything a Manager knows, for people and tests.
type Snapshot struct {
	Taken time.Time
	// Volumes are sorted by name.
	Volumes []VolumeSnapshot
	// Operations are under way, sorted by volume and pod. One that is past its
	// Deadline hangs.
	Operations []Operation
	// Leftovers are on disk, and no plugin knows what to do with them.
	Leftovers []Leftover
}

// VolumeSnapshot is one volume: what is desired of it, and what is.
type VolumeSnapshot struct {
	Name   v1.UniqueVolumeName
	Plugin string
	// Attachable: something else attaches it; Attached, and ReportedInUse, say how
	// far that is.
	Attachable, Attached, ReportedInUse bool
	// Device is how much is known to be staged, DeviceDir where; "" if the volume
	// need not be.
	Device    State
	DeviceDir string
	// LastError is that of the last operation on the whole volume; nil if it
	// succeeded.
	LastError error
	// Pods are sorted by UID.
	Pods []PodVolume
}

// PodVolume is a volume of one pod.
type PodVolume struct {
	UID    types.UID
	Outer  []string
	Inner  string
	Desire Desire
	State  State
	// Reconstructed: found after a restart, and not set up since.
	Reconstructed bool
	Mounted       Mounted
	// LastError is that of the last operation for the pod, Failures how often it
	// failed in a row; RetryAt when it is tried again.
	LastError error
	Failures  int
	RetryAt   time.Time
}

// Snapshot returns everything as of now. It is the caller's.
func (m *Manager) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Snapshot{Taken: time.Now(), Leftovers: slices.Clone(m.mu.leftovers)}
	for _, name := range slices.Sorted(maps.Keys(m.mu.volumes)) {
		v := m.mu.volumes[name]
		if v.busy != nil {
			s.Operations = append(s.Operations, v.busy.describe())
		}
		one := VolumeSnapshot{
			Name: v.name, Plugin: v.plugin.Name(), Attachable: v.attachable, Attached: v.attached, ReportedInUse: v.reported,
			Device: v.device, DeviceDir: v.deviceDir, LastError: v.failure.err,
		}
		for _, uid := range v.uids() {
			r := v.rows[uid]
			if r.busy != nil {
				s.Operations = append(s.Operations, r.busy.describe())
			}
			one.Pods = append(one.Pods, PodVolume{
				UID: uid, Outer: slices.Clone(r.outer), Inner: r.place.Inner, Desire: r.desire, State: r.state,
				Reconstructed: r.found, Mounted: r.mounted,
				LastError: r.failure.err, Failures: r.failure.count, RetryAt: r.failure.until,
			})
		}
		s.Volumes = append(s.Volumes, one)
	}
	slices.SortFunc(s.Operations, compareOperations)
	return s
}
