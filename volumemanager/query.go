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
	// Inner is the name of its folder, Block whether Path is a device.
	Inner string
	Block bool
}

// GetMountedVolumesForPod returns the volumes of the pod that are mounted, by the
// pod's own names for them. What is uncertain is not in it. The map is the
// caller's.
func (m *Manager) GetMountedVolumesForPod(uid types.UID) map[string]MountedVolume {
	m.mu.Lock()
	defer m.mu.Unlock()
	volumes := map[string]MountedVolume{}
	m.each(uid, func(_ *volume, r *row) {
		if r.state != StateMounted {
			return
		}
		for _, name := range r.outer {
			volumes[name] = MountedVolume{Mounted: r.mounted, Inner: r.place.Inner, Block: r.spec.Block()}
		}
	})
	return volumes
}

// HasPossiblyMountedVolumesForPod reports whether anything of the pod is mounted,
// or may be.
func (m *Manager) HasPossiblyMountedVolumesForPod(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.remaining(uid)) > 0
}

// GetExtraSupplementalGroupsForPod returns the groups that the pod's mounted
// volumes ask for with the annotation pv.beta.kubernetes.io/gid, and that the pod
// does not have anyway; sorted, each once. What is no number is left out.
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

// GetVolumesInUse returns the attachable volumes that pods need or have, sorted:
// what is to be published as node.status.volumesInUse, so that none is detached.
// A volume is in it from the decision to mount it until it is unmounted for good.
// Before ReconcilerStatesHasBeenSynced it is not complete, and what was published
// before must stay.
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

// ReconcilerStatesHasBeenSynced reports whether it is known what an agent before
// this one had mounted.
func (m *Manager) ReconcilerStatesHasBeenSynced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.rebuilt
}

// VolumeIsAttached reports whether the volume is known and, if something has to
// attach it, attached.
func (m *Manager) VolumeIsAttached(name v1.UniqueVolumeName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.mu.volumes[name]
	return ok && (v.attached || !v.attachable)
}

// MarkVolumesAsReportedInUse says what the API server has as
// node.status.volumesInUse: call it whenever the status was read or sent, with the
// whole list. A volume that must be attached is not waited for before.
func (m *Manager) MarkVolumesAsReportedInUse(names []v1.UniqueVolumeName) {
	reported := make(map[v1.UniqueVolumeName]bool, len(names))
	for _, name := range names {
		reported[name] = true
	}
	m.mu.Lock()
	defer m.unlock()
	for name, v := range m.mu.volumes {
		if !v.attachable || v.reported == reported[name] {
			continue
		}
		v.reported = reported[name]
		m.dispatch(v)
	}
}

// NodeChanged says that Node.AttachedVolumes may have a new result: volumes that
// are waited for are looked for at once.
func (m *Manager) NodeChanged() {
	m.mu.Lock()
	defer m.unlock()
	for _, v := range m.mu.volumes {
		if v.attachable && !v.attached && v.failure.kind == OpVerifyAttached {
			v.failure = v.failure.excuse()
			m.dispatch(v)
		}
	}
}
