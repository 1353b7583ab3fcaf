// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the whole state of a Manager, for people and tests.
type Snapshot struct {
	Taken time.Time
	// Volumes are sorted by name.
	Volumes []VolumeSnapshot
	// Operations are the operations under way, sorted by volume and pod. An operation past its
	// Deadline hangs.
	Operations []Operation
	// Leftovers are volume folders without a plugin to tear them down. Manager.Leftovers finds
	// more.
	Leftovers []Leftover
}

// VolumeSnapshot is the desired and the actual state of a volume.
type VolumeSnapshot struct {
	Name   v1.UniqueVolumeName
	Plugin string
	// Attachable: an external attacher attaches the volume. Attached and ReportedInUse are the
	// progress of the attaching.
	Attachable, Attached, ReportedInUse bool
	// Device is the state of staging, DeviceDir the staging folder; "" if the plugin does not stage
	// the volume.
	Device    State
	DeviceDir string
	// LastError is the error of the last operation on the whole volume; nil after a success.
	LastError error
	// Pods are sorted by UID.
	Pods []PodVolume
}

// PodVolume is the state of a volume for one pod.
type PodVolume struct {
	UID    types.UID
	Outer  []string
	Inner  string
	Desire Desire
	State  State
	// Reconstructed: the volume was found after a restart and not set up since.
	Reconstructed bool
	Mounted       Mounted
	// LastError is the error of the last operation for the pod, Failures the number of failures in
	// a row, RetryAt the time of the next try.
	LastError error
	Failures  int
	RetryAt   time.Time
}

// Snapshot returns the present state. The caller owns the result.
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
		for _, r := range v.rows {
			if r.busy != nil && r.busy != v.busy {
				s.Operations = append(s.Operations, r.busy.describe())
			}
			one.Pods = append(one.Pods, PodVolume{
				UID: r.place.PodUID, Outer: slices.Clone(r.outer), Inner: r.place.Inner, Desire: r.desire, State: r.state,
				Reconstructed: r.found, Mounted: r.mounted,
				LastError: r.failure.err, Failures: r.failure.count, RetryAt: r.failure.until,
			})
		}
		s.Volumes = append(s.Volumes, one)
	}
	return s
}
