// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MountedVolume is a volume that is ready for the containers of a pod.
type MountedVolume struct {
	Mounted
	// Inner is the name of the volume's folder. Block reports whether Path is a device.
	Inner string
	Block bool
}

// GetMountedVolumesForPod returns the mounted volumes of the pod, by the pod's own names for them.
// Uncertain volumes are left out. The caller owns the map.
func (m *Manager) GetMountedVolumesForPod(uid types.UID) map[string]MountedVolume {
	m.mu.Lock()
	defer m.mu.Unlock()
	volumes := map[string]MountedVolume{}
	m.each(uid, func(_ *volume, r *row) {
		if r.state != StateMounted {
			return
		}
		for _, name := range r.outer {
			volumes[name] = r.mountedVolume()
		}
	})
	return volumes
}

// HasPossiblyMountedVolumesForPod reports whether the pod has a mounted or uncertain volume, or an
// operation under way.
func (m *Manager) HasPossiblyMountedVolumesForPod(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.remaining(uid)) > 0
}

// GetExtraSupplementalGroupsForPod returns the groups in the annotation pv.beta.kubernetes.io/gid
// of the pod's mounted volumes, without the pod's own supplemental groups. The result is sorted and
// has no duplicates. A value that is not a number is ignored.
func (m *Manager) GetExtraSupplementalGroupsForPod(pod *v1.Pod) []int64 {
	groups := map[int64]bool{}
	m.mu.Lock()
	m.each(pod.UID, func(_ *volume, r *row) {
		if gid, err := strconv.ParseInt(r.spec.GID, 10, 64); r.state == StateMounted && err == nil {
			groups[gid] = true
		}
	})
	m.mu.Unlock()
	if sc := pod.Spec.SecurityContext; sc != nil {
		for _, known := range sc.SupplementalGroups {
			delete(groups, known)
		}
	}
	return slices.Sorted(maps.Keys(groups))
}

// GetVolumesInUse returns the attachable volumes that pods need or have, sorted. Publish the list
// as node.status.volumesInUse, so that the attach controller detaches no volume in use. A volume is
// in the list from the first request of a pod until no pod needs or has the volume and the volume
// is unstaged. Before ReconcilerStatesHasBeenSynced the list is incomplete, and the published list
// must stay.
func (m *Manager) GetVolumesInUse() []v1.UniqueVolumeName {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []v1.UniqueVolumeName
	for name, v := range m.mu.volumes {
		if v.attachable {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ReconcilerStatesHasBeenSynced reports whether Reconstruct has found the volumes mounted by an
// earlier agent.
func (m *Manager) ReconcilerStatesHasBeenSynced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.rebuilt
}

// VolumeIsAttached reports whether the volume is known and attached. A volume without an external
// attacher counts as attached.
func (m *Manager) VolumeIsAttached(name v1.UniqueVolumeName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.mu.volumes[name]
	return ok && (v.attached || !v.attachable)
}

// MarkVolumesAsReportedInUse records the whole list node.status.volumesInUse of the API server.
// Call it whenever the status was read or sent. An attachable volume is not mounted before it is in
// the list.
func (m *Manager) MarkVolumesAsReportedInUse(names []v1.UniqueVolumeName) {
	reported := make(map[v1.UniqueVolumeName]bool, len(names))
	for _, name := range names {
		reported[name] = true
	}
	m.mu.Lock()
	defer m.unlock()
	for name, v := range m.mu.volumes {
		v.reported = reported[name]
		m.dispatch(v)
	}
}

// NodeChanged reports that Node.AttachedVolumes may have a new result. Volumes that wait for their
// attaching are checked at once.
func (m *Manager) NodeChanged() {
	m.mu.Lock()
	defer m.unlock()
	for _, v := range m.mu.volumes {
		if v.failure.kind == OpVerifyAttached {
			v.failure = v.failure.endBackoff()
			m.dispatch(v)
		}
	}
}
