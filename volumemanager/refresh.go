// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// refreshed is a volume of which Refresh has to ask whether it is meant.
type refreshed struct {
	name  v1.UniqueVolumeName
	pod   *v1.Pod
	outer []string
}

// Refresh renews the content of those volumes of live pods that match says so of,
// as far as their plugins do that. It does not wait. Call it when a ConfigMap,
// Secret or whatever volumes are made of has changed: then no pod has to be synced
// for that. match is called without a lock held; it does not write to the pod.
func (m *Manager) Refresh(match func(*v1.Pod, v1.Volume) bool) {
	for _, c := range m.refreshable() {
		if !slices.ContainsFunc(c.pod.Spec.Volumes, func(vol v1.Volume) bool {
			return slices.Contains(c.outer, vol.Name) && match(c.pod, vol)
		}) {
			continue
		}
		m.refresh(c)
	}
}

func (m *Manager) refresh(c refreshed) {
	m.mu.Lock()
	defer m.unlock()
	v, r := m.row(c.name, c.pod.UID)
	if r == nil || r.desire != DesireMounted {
		return
	}
	r.refresh++
	if r.failure.kind.sets() {
		r.failure = r.failure.excuse()
	}
	m.dispatch(v)
}

// refreshable returns the volumes whose content changes.
func (m *Manager) refreshable() []refreshed {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []refreshed
	for name, v := range m.mu.volumes {
		for _, r := range v.rows {
			if r.desire == DesireMounted && r.pod != nil && v.refreshes(r.spec) {
				all = append(all, refreshed{name, r.pod, r.outer})
			}
		}
	}
	return all
}
